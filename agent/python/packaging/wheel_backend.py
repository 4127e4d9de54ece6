"""Build backend of the wheel: maturin, and the command ``tetris`` beside the package.

maturin builds the library or the programs of a crate into a wheel, not both. So the command is built first, with the
profile and the flags of the library, and put where maturin takes scripts from. It is the program that others install
without Python: it starts as fast, and signals, exit codes and ``tetris exec`` do not pass through an interpreter.

``TETRIS_BIN`` in the environment names a command that has been built already.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import maturin

#: Folder of the package; front ends call a backend there.
_ROOT = Path(__file__).resolve().parent.parent
_SCRIPTS = _ROOT / "wheel-data" / "scripts"

build_sdist = maturin.build_sdist
get_requires_for_build_editable = maturin.get_requires_for_build_editable
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
prepare_metadata_for_build_editable = maturin.prepare_metadata_for_build_editable
prepare_metadata_for_build_wheel = maturin.prepare_metadata_for_build_wheel


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the wheel, with the command; return its file name."""
    with _command(config_settings):
        return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """As :func:`build_wheel`, for a package that stays where it is."""
    with _command(config_settings):
        return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


@contextlib.contextmanager
def _command(config_settings: dict[str, Any] | None) -> Iterator[None]:
    """While this is entered, the command is among the scripts."""
    built = os.environ.get("TETRIS_BIN") or _build(_cargo_flags(config_settings))
    _SCRIPTS.mkdir(exist_ok=True)
    try:
        _copy_stripped(built, _SCRIPTS / "tetris")
        yield
    finally:
        shutil.rmtree(_SCRIPTS, ignore_errors=True)


def _cargo_flags(config_settings: dict[str, Any] | None) -> list[str]:
    """Return those of maturin's arguments that cargo takes as well."""
    settings = config_settings or {}
    given = settings.get("maturin.build-args", settings.get("build-args"))
    if given is None:
        given = os.environ.get("MATURIN_PEP517_ARGS", "")
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--profile", default="release")
    parser.add_argument("--target", default=os.environ.get("CARGO_BUILD_TARGET"))
    for flag in ("--locked", "--offline", "--frozen"):
        parser.add_argument(flag, action="store_true")
    known, _ = parser.parse_known_args(shlex.split(given) if isinstance(given, str) else given)
    flags = ["--profile", known.profile]
    if known.target:
        flags += ["--target", known.target]
    return flags + [f"--{name}" for name in ("locked", "offline", "frozen") if getattr(known, name)]


def _build(flags: list[str]) -> str:
    """Build the command; return its path."""
    cargo = os.environ.get("CARGO") or shutil.which("cargo")
    if cargo is None:
        raise SystemExit(
            "the command tetris cannot be built: expected cargo on PATH; install Rust, see https://rustup.rs"
        )
    command = [cargo, "build", "--package", "tetris-cli", "--bin", "tetris", *flags]
    messages = ["--message-format", "json-render-diagnostics"]
    done = subprocess.run([*command, *messages], cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the command tetris was not built: {shlex.join(command)} ended with {done.returncode}")
    artifacts = (json.loads(line) for line in done.stdout.splitlines())
    [built] = [artifact["executable"] for artifact in artifacts if artifact.get("executable")]
    return built


def _copy_stripped(source: str, target: Path) -> None:
    """Copy a program without its debug information, which is most of it, if there is a tool for that."""
    strip = shutil.which("strip")
    # It knows the architectures of this machine alone: a command for another one comes as it is.
    if strip is None or subprocess.run([strip, "-o", target, source], check=False).returncode != 0:
        print("no strip for it: the command tetris keeps its debug information", file=sys.stderr)
        shutil.copy(source, target)
