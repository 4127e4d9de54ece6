"""Uses the package as it is installed: the command makes a store, and two files with one tensor are loaded through it.

Run by `python -I`. It fails unless both tensors have their file's bytes, and the second came from the store.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy
import safetensors.numpy
import tetris
import tetris.numpy


def main() -> int:
    """Loads the files and returns the exit status."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ["TETRIS_STORE"] = f"{folder}/store"
        made = subprocess.run(["tetris", "init", "--no-mount"], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            return fail(f"`tetris init` ended with {made.returncode}: {made.stderr}")
        # Larger than the files that are left out of the store.
        weight = numpy.arange(1 << 21, dtype=numpy.float32)
        first, second = Path(folder, "first.safetensors"), Path(folder, "second.safetensors")
        for path in (first, second):
            safetensors.numpy.save_file({"weight": weight}, path)
        if not (tetris.numpy.load_file(first)["weight"] == weight).all():
            return fail("the loaded tensor differs from the file's")
        model = tetris.load(second)
        if bytes(memoryview(model["weight"])) != weight.tobytes():
            return fail("the tensor of the second file differs from the file's")
        report = model.report
    if report["bytes_private"]:
        return fail(f"{report['bytes_private']} bytes are in private memory: {report['private_reason']}")
    if report["bytes_shared"] < weight.nbytes:
        return fail(f"expected {weight.nbytes} bytes that were in the store, found {report['bytes_shared']}")
    print(f"loaded, with {report['bytes_shared']} bytes from the store")
    return 0


def fail(why: str) -> int:
    """Prints the reason that the package does not work."""
    print(f"error: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
