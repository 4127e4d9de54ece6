# For images with model servers, from source. The context is the repository:
#     docker build -f deploy/images/agent.Dockerfile -t tetris-agent .                      # the command `tetris` alone
#     docker build -f deploy/images/agent.Dockerfile --target python -t tetris-python .     # Python with the package and the command
# Others take what they need: COPY --from=tetris-agent /usr/local/bin/tetris /usr/local/bin/tetris
# The images are those of deploy/images/base-images; deploy/images/build gives them with their digests.
ARG RUST_IMAGE=docker.io/library/rust:1.95-slim-trixie
ARG PYTHON_IMAGE=docker.io/library/python:3.13-slim-trixie
FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY . .
RUN RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --profile image \
        --target "$(rustc -vV | sed -n 's/host: //p')" --package tetris-cli --bin tetris \
    && cp target/*/image/tetris /tetris

FROM build AS wheel
RUN apt-get update && apt-get install --yes --no-install-recommends python3-venv \
    && python3 -m venv /venv && /venv/bin/pip install --no-cache-dir "maturin>=1.9,<2" \
    && /venv/bin/maturin build --release --locked --manifest-path agent/python/Cargo.toml --out /wheels

FROM ${PYTHON_IMAGE} AS python
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl && rm -r /wheels
COPY --from=build /tetris /usr/local/bin/tetris

FROM scratch AS agent
COPY --from=build /tetris /usr/local/bin/tetris
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/tetris"]
