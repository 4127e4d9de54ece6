"""The command `tetris` that the wheel brings: the program itself, without an interpreter around it."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import model_files
import pytest
import tetris
from model_files import floats
from process import HANGS_S, objects


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file."""
    return model_files.write(tmp_path / "model.safetensors", {"w": floats([128, 256])})


def ran(*command: object) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=HANGS_S)


def test_the_wheel_brings_the_command_of_its_own_version(tetris_bin: str) -> None:
    installed = {str(Path(str(file.locate())).resolve()) for file in metadata.files("tetris-store") or ()}
    assert str(Path(tetris_bin).resolve()) in installed
    # No script: Ctrl-C, exit codes and exec do not pass through an interpreter.
    assert Path(tetris_bin).read_bytes()[:4] == b"\x7fELF"
    done = ran(tetris_bin, "--version")
    assert (done.returncode, done.stdout) == (0, f"tetris {tetris.__version__}\n")


def test_both_use_one_store(tetris_bin: str, store: Path, path: Path) -> None:
    assert tetris.load(path).report["bytes_new"] > 0
    done = ran(tetris_bin, "load", path, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert len(objects(store)) == 1
    assert tetris.load(path)["w"].origin == "shared"


def test_exit_codes_are_those_of_the_command(tetris_bin: str, store: Path, tmp_path: Path) -> None:
    assert ran(tetris_bin, "nonsense").returncode == 2
    assert ran(tetris_bin, "load", tmp_path / "nowhere").returncode == 4
    assert ran(tetris_bin, "exec", "--", sys.executable, "-c", "raise SystemExit(42)").returncode == 42


def test_exec_becomes_the_program_and_holds_its_models(tetris_bin: str, store: Path, path: Path) -> None:
    program = (
        "import json, os, sys; from safetensors.numpy import load_file; got = load_file(sys.argv[1]);"
        "maps = open('/proc/self/maps').read().count(os.environ['TETRIS_STORE'])\n"
        "print(json.dumps([os.getpid(), maps > 0]), flush=True); sys.stdin.read()"
    )
    command = [tetris_bin, "exec", "--model", str(path), "--", sys.executable, "-c", program, "{}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    # A shell that starts jobs in the background has them ignore it.
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, text=True, preexec_fn=heard, **pipes) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == [process.pid, True]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANGS_S)
    # Python's own way to end by Ctrl-C.
    assert process.returncode == -signal.SIGINT


def test_a_model_is_pulled_and_loads_from_the_store(tetris_bin: str, store: Path, path: Path) -> None:
    (path.parent / "config.json").write_text("{}")
    (path.parent / "notes.txt").write_text("x")
    report = tetris.pull(path.parent, exclude=["*.txt"])
    assert [file["path"] for file in report["files"]] == ["config.json", "model.safetensors"]
    assert report["left_out"] == ["notes.txt"]
    assert report["bytes_fetched"] == path.stat().st_size + 2
    loaded = tetris.load(path)
    assert (loaded.report["bytes_new"], loaded["w"].origin) == (0, "shared")
    only = tetris.pull(str(path), include=["*.safetensors"], store=store, connections=1, limit_rate="1G")
    assert [file["objects_new"] for file in only["files"]] == [0]


def test_a_pull_that_fails_says_why(tetris_bin: str, store: Path, tmp_path: Path) -> None:
    for source, words in (
        (tmp_path / "nowhere", "nowhere"),
        ("hf://a/b/c", "ORG/MODEL"),
        (tmp_path, "no file to pull"),
        ("--help", "no such file"),
    ):
        with pytest.raises(tetris.PullError, match=f"(?i){words}"):
            tetris.pull(source)
    with pytest.raises(tetris.PullError, match="store"):
        tetris.pull(tmp_path, store=tmp_path / "none")
