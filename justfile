# Names for the project's scripts. Nobody needs just: each recipe is one command.

# Formatting, lints, documentation, dependencies, spelling, features
check *ARGS:
    tests/check {{ARGS}}

# Every test in Rust
test *ARGS:
    tests/rust {{ARGS}}

# The Python packages: formatting, lints, types, tests
test-python *ARGS:
    tests/python {{ARGS}}

# As nodes have it: containers, and the kernels 6.1 and 6.12 in emulated machines. Needs root
test-node:
    tests/docker.sh
    tests/rust -E 'package(tetris-container-tests) + test(/(^|::)image::/)'
    tests/vm

# The Debian package and its service, under systemd in an emulated machine. Needs root
test-systemd *ARGS:
    tests/systemd {{ARGS}}

# The install on the cluster that KUBECONFIG names
test-cluster:
    cargo test --locked -p tetris-deploy-tests --test it cluster:: -- --nocapture

# Real inference engines over the store; fetches or compiles them the first time
test-engines *ARGS:
    tests/engines {{ARGS}}

# README's first minutes in an empty Debian, within ten minutes for each way. Needs root and debootstrap
test-first-minutes *ARGS:
    tests/first-minutes {{ARGS}}

# The gateway with programs of others: envoy, which is fetched the first time
test-gateway *ARGS:
    tests/gateway {{ARGS}}

# All that needs a GPU
test-gpu *ARGS:
    tests/gpu {{ARGS}}

# The fuzz targets, each for a minute or the seconds given. Needs nightly and cargo-fuzz
fuzz *ARGS:
    tests/fuzz {{ARGS}}

# An earlier commit's agent with today's daemon, and the reverse; compiles the earlier build the first time. Needs root
test-compatibility *ARGS:
    tests/compatibility-builds {{ARGS}}

# All attacks at once on a daemon for ten minutes, or the seconds given, with limits of time. Needs root and an idle machine
soak SECONDS='600':
    TETRIS_SOAK_SECONDS={{SECONDS}} TETRIS_SOAK_TIMES=1 tests/rust -E 'package(tetris-attacks) and test(soak::)' --no-capture

# Benchmarks, which leave their figures in docs/benchmarks
bench *ARGS:
    tests/bench {{ARGS}}

# Simulators, reproductions of papers and benchmarks in research/: lints and tests
research-check *ARGS:
    tests/research {{ARGS}}

# The evaluation of Tetris in the simulator: figures 9 to 14 over all models of table 4, beside the paper's. `--format json` for all runs
reproduce-tetris *ARGS:
    cargo run --release --locked --manifest-path research/Cargo.toml -p tetris-scaler-simulator -- reproduce-tetris {{ARGS}}

# The evaluation of GPU-FaaS in the simulator: the paper's figures beside ours. `--format json` for all runs
reproduce-gpu-faas *ARGS:
    cargo run --release --locked --manifest-path research/Cargo.toml -p tetris-scaler-simulator -- reproduce-gpu-faas {{ARGS}}

# The evaluation of Torpor in the simulator, and families of models that share a base
reproduce-torpor *ARGS:
    cargo run --release --locked --manifest-path research/Cargo.toml -p tetris-scaler-simulator -- reproduce-torpor {{ARGS}}

# The evaluation of TIDAL, the paper's figures beside ours: starts on the simulated device, then figure 19 in the simulator. `json 1` for one round of starts as JSON
reproduce-tidal FORMAT="text" ROUNDS="5":
    cargo run --release --locked --manifest-path research/Cargo.toml -p tetris-gpu-bench --bin reproduce-tidal -- --format {{FORMAT}} --rounds {{ROUNDS}}
    cargo run --release --locked --manifest-path research/Cargo.toml -p tetris-scaler-simulator -- reproduce-tidal --format {{FORMAT}}

# BENCHMARKS.md, the chart and the README's figures, from the figures in docs/benchmarks
bench-report:
    tests/bench-report

# The book, with search, in target/book; fails where a page or link is wrong. `--open` shows it
book *ARGS:
    python3 tests/book links
    python3 tests/book reference
    python3 tests/book build {{ARGS}}

# Images of all programs, or of those named, and their bills of materials
images *ARGS:
    deploy/images/build {{ARGS}}

# Packages of the crates for crates.io, each built from its package
crates *ARGS:
    release/crates {{ARGS}}

# Wheels for x86-64 and aarch64 and the source distribution, checked and installed into empty environments
wheels *ARGS:
    release/wheels {{ARGS}}

# Version, changelog and fixtures against the tag of a release, such as v0.1.0
release-check *ARGS:
    release/check {{ARGS}}

# What CI runs
ci:
    .ci/run
