"""Parts of vLLM and of Tetris for a machine with a GPU and without a network, small enough to be carried one by one.

    python3 pack.py DIR PROGRAMS      PROGRAMS: a folder with `tetris`, `tetris-node` and the wheel

Makes DIR/1, DIR/2, ...: each has a part and `unpack`, which checks it and, with the last one, unpacks all.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from zipfile import ZipFile

HERE = Path(__file__).parent
#: The newest that runs with torch 2.11.
VLLM = "vllm==0.26.0"
PYTHON = "3.12"
PART_BYTES = 45_000_000
#: Parts of vLLM that a dense model does not need with Triton's attention, and sources of kernels.
LEFT_OUT = (
    "vllm/vllm_flash_attn/*.so",
    "vllm/_moe_C*.so",
    "vllm/_flashmla*.so",
    "vllm/_qutlass*.so",
    "vllm/third_party/deep_gemm/*",
    "vllm/third_party/fmha_sm100/*",
    "vllm/vllm-rs",
    "*/swagger-ui*",
    "*/RECORD",
)


def download(folder: Path, *arguments: str) -> None:
    """Download wheels for the other machine's Python."""
    # pip takes names of platforms one by one.
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(5, 40)]
    platforms += ["manylinux1_x86_64", "manylinux2014_x86_64"]
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--only-binary=:all:", "--implementation", "cp", "--python-version", PYTHON, "--dest", str(folder)),
            *(option for platform in platforms for option in ("--platform", platform)),
            *arguments,
        ],
        check=True,
    )


def unpack_wheel(wheel: Path, site: Path) -> None:
    """Put what is needed of a wheel into a folder of packages."""
    with ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not any(fnmatch(name, pattern) for pattern in LEFT_OUT):
                archive.extract(name, site)


def assemble(root: Path, programs: Path) -> None:
    """Make the folder that the other machine gets."""
    site = root / "site"
    site.mkdir()
    with tempfile.TemporaryDirectory() as name:
        wheels = Path(name)
        download(wheels, VLLM)
        download(wheels, "--requirement", str(HERE / "requirements.txt"))
        for wheel in sorted((*wheels.glob("*.whl"), *programs.glob("*.whl"))):
            unpack_wheel(wheel, site)
    (root / "bin").mkdir()
    for program in ("tetris", "tetris-node"):
        shutil.copy2(programs / program, root / "bin")
    for file in ("engine.py", "measure.py", "models.py"):
        shutil.copy2(HERE / file, root)


def split(root: Path, out: Path) -> int:
    """Write a folder as parts; return their number."""
    with tempfile.TemporaryFile() as packed:
        with lzma.open(packed, "wb", preset=6) as compressed, tarfile.open(fileobj=compressed, mode="w|") as archive:
            archive.add(root, arcname=".")
        size = packed.tell()
        packed.seek(0)
        number = -(-size // PART_BYTES)
        sums = []
        for index in range(1, number + 1):
            content = packed.read(PART_BYTES)
            folder = out / str(index)
            folder.mkdir()
            (folder / "part").write_bytes(content)
            sums.append(hashlib.sha256(content).hexdigest())
    for index in range(1, number + 1):
        about = {"number": index, "sha256": sums}
        (out / str(index) / "part.json").write_text(json.dumps(about))
        shutil.copy2(HERE / "unpack.py", out / str(index) / "unpack")
    print(f"{size / 1e6:.1f} MB in {number} parts", file=sys.stderr)
    return number


def main() -> None:
    """Make the parts."""
    out, programs = map(Path, sys.argv[1:])
    if out.exists() and any(not (path / "part.json").exists() for path in out.iterdir()):
        sys.exit(f"{out} is neither empty nor an earlier pack: choose another directory")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        assemble(Path(name), programs)
        split(Path(name), out)


if __name__ == "__main__":
    main()
