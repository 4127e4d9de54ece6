"""A wheel for another architecture, installed and used in a container whose programs an emulator runs.

The kernel starts the emulator, once it is registered with the flag F: by Debian's package qemu-user-static, or in a
workflow by docker/setup-qemu-action. The container has no network: pip fetches the wheels that it requires from here.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: Docker's name of an architecture, and its number in the header of ELF files.
ARCHITECTURES = {"x86_64": ("amd64", 62), "aarch64": ("arm64", 183)}
#: Folder of the emulators that the kernel knows.
REGISTERED = Path("/proc/sys/fs/binfmt_misc")
#: Versions of glibc that required wheels may name: from manylinux2014 to that of Debian 12.
GLIBC_MINORS = range(17, 37)
#: Longest time of a step in seconds; emulators are slow.
LIMIT_S = 1200

#: Prints the version of Python in the container.
VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
#: Installs the wheel into an environment with nothing else, and uses it.
TRIAL = """set -e
python3 -m venv /tmp/environment
PATH=/tmp/environment/bin:$PATH
set -- /packages/tetris_store-*.whl
pip install --quiet --disable-pip-version-check --no-index --find-links /packages "$1[numpy]"
tetris --version
python -I /packages/trial.py
"""


def default_image() -> str:
    """Image with Python, from deploy/images/base-images."""
    lines = (ROOT / "deploy/images/base-images").read_text().splitlines()
    [words] = [line.split() for line in lines if line.startswith("PYTHON_IMAGE ")]
    return "@".join(words[1:])


def obstacle(arch: str, image: str) -> str | None:
    """The reason that programs of an architecture cannot run in containers here."""
    docker_arch, machine = ARCHITECTURES[arch]
    entries = [entry for entry in REGISTERED.glob("*") if entry.name not in ("register", "status")]
    if not any(starts(entry.read_text(), machine) for entry in entries):
        return f"no emulator for {arch} in {REGISTERED} with the flag F; install Debian's package qemu-user-static"
    if shutil.which("docker") is None:
        return "no docker; install it"
    if (failed := run(["docker", "version"])).returncode != 0:
        return f"Docker's daemon does not answer: {last_line(failed)}"
    found = run(["docker", "image", "inspect", "--format", "{{.Architecture}}", image])
    if found.stdout.strip() != docker_arch:
        pulled = run(["docker", "pull", "--quiet", "--platform", f"linux/{docker_arch}", image])
        if pulled.returncode != 0:
            return f"no image {image} for {docker_arch}: {last_line(pulled)}; `--image` names another, with Python 3.11"
    return None


def starts(entry: str, machine: int) -> bool:
    """Returns true if the kernel starts programs of a machine by this entry of its list, in containers too.

    A container does not have the file of the emulator. With the flag F the kernel has opened it beforehand.
    """
    lines = entry.splitlines()
    fields = dict(line.split(" ", 1) for line in lines if " " in line)
    magic = bytes.fromhex(fields.get("magic", ""))
    is_elf = magic.startswith(b"\x7fELF") and magic[18:20] == machine.to_bytes(2, "little")
    return "enabled" in lines and "F" in fields.get("flags:", "") and is_elf


def try_wheel(wheel: Path, arch: str, image: str, pip: Path, folder: Path) -> str:
    """Installs a wheel in a container and uses it; `folder` is made anew. Returns the output.

    Raises:
        RuntimeError: A step failed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    container = ["docker", "run", "--rm", "--network", "none", "--platform", f"linux/{ARCHITECTURES[arch][0]}"]
    version = succeed([*container, image, "python3", "-c", VERSION]).strip()
    fetch = [pip, "download", "--quiet", "--disable-pip-version-check", "--dest", folder]
    fetch += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", version]
    for platform in ("manylinux2014", *(f"manylinux_2_{minor}" for minor in GLIBC_MINORS)):
        fetch += ["--platform", f"{platform}_{arch}"]
    succeed([*fetch, f"{wheel}[numpy]"])
    shutil.copy(ROOT / "release/trial.py", folder)
    return succeed([*container, "--volume", f"{folder}:/packages:ro", image, "sh", "-c", TRIAL])


def succeed(command: list[object]) -> str:
    """Runs a command and returns its output."""
    done = run(command)
    if done.returncode != 0:
        words = " ".join(map(str, command))
        raise RuntimeError(f"`{words}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def run(command: list[object]) -> subprocess.CompletedProcess[str]:
    """Runs a command with its output captured."""
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of a command's messages."""
    return ["", *done.stderr.strip().splitlines()][-1]
