#!/bin/sh
# Fetches what stands for the sources of models in tests: an S3 server (moto) and the client of the
# Hugging Face hub, from the Python package index. Prints the path of a Python that has them. Does nothing if
# they are there; may run several times at once.
#
# Usage: tests/fetch-sources.sh [CACHE_DIR]
set -eu

here=$(dirname "$0")
cache=${1:-${TETRIS_TEST_CACHE:-${CARGO_TARGET_DIR:-$here/../target}}/sources}
venv=$cache/venv

mkdir -p "$cache"
# One at a time.
exec 9>"$cache/lock"
flock 9
if [ ! -f "$venv/complete" ]; then
    rm -rf "$venv"
    python3 -m venv "$venv" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        'moto[s3,server]==5.2.5' 'huggingface_hub==2.4.0' >&2
    touch "$venv/complete"
fi
printf '%s\n' "$venv/bin/python"
