"""The pack of vLLM for a machine with a GPU, and the program that measures there."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAMS = Path(__file__).parents[3] / "tests" / "gpu_engines"


def program(name: str) -> ModuleType:
    """One of the programs, as a module."""
    spec = importlib.util.spec_from_file_location(f"gpu_engines_{name}", PROGRAMS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def contents(folder: Path) -> dict[str, tuple[bytes, bool]]:
    """Each file's bytes, and whether it may be run."""
    return {
        os.fspath(path.relative_to(folder)): (path.read_bytes(), os.access(path, os.X_OK))
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[Path]]:
    """A folder, and its parts."""
    pack = program("pack")
    monkeypatch.setattr(pack, "PART_BYTES", 10_000)
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "tetris").write_bytes(os.urandom(25_000))
    (root / "bin" / "tetris").chmod(0o755)
    (root / "measure.py").write_text("print('measured')\n")
    parts = tmp_path / "parts"
    parts.mkdir()
    number = pack.split(root, parts)
    assert number == 3
    return root, [parts / str(index) for index in range(1, number + 1)]


def unpack(part: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a part's own program."""
    return subprocess.run([sys.executable, part / "unpack", folder], capture_output=True, text=True, timeout=60)


def test_parts_in_any_order_give_the_folder_again(packed: tuple[Path, list[Path]], tmp_path: Path) -> None:
    root, parts = packed
    assert all(sum(file.stat().st_size for file in part.iterdir()) < 20_000 for part in parts)
    there = tmp_path / "there"
    missing = [{2, 3}, {2}, set()]
    for part, expected in zip((parts[0], parts[2], parts[1]), missing, strict=True):
        done = unpack(part, there)
        assert done.returncode == 0, done.stderr
        assert (there / "root").exists() == (not expected)
        assert f"missing: {', '.join(map(str, sorted(expected))) or 'none'}" in done.stdout
    assert contents(there / "root") == contents(root)
    # A part that is carried again changes nothing.
    assert unpack(parts[0], there).returncode == 0
    assert contents(there / "root") == contents(root)


def test_a_part_that_was_damaged_on_its_way_is_refused(packed: tuple[Path, list[Path]], tmp_path: Path) -> None:
    _, parts = packed
    content = bytearray((parts[1] / "part").read_bytes())
    content[5_000] ^= 1
    (parts[1] / "part").write_bytes(content)
    there = tmp_path / "there"
    for part, status in zip(parts, (0, 1, 0), strict=True):
        done = unpack(part, there)
        assert done.returncode == status
    refused = unpack(parts[1], there)
    assert "part 2: expected the SHA-256" in refused.stderr
    assert not (there / "root").exists()


def test_a_folder_that_is_no_pack_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("not a part")
    done = subprocess.run(
        [sys.executable, PROGRAMS / "pack.py", tmp_path, tmp_path], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "choose another directory" in done.stderr
    assert (tmp_path / "kept").read_text() == "not a part"


#: A made-up engine: answers as the real one does.
ENGINE = """
import json, sys
print(json.dumps({"imported_s": 0.1}), flush=True)
share = "stock"
for line in sys.stdin:
    command = json.loads(line)
    what = command["do"]
    if what == "load":
        share = command["options"]["load_format"]
        if share == "tetris" and FAILS:
            answer = {"error": "Traceback\\nRuntimeError: no room"}
        else:
            seconds = 0.5 if share == "auto" else 0.01
            answer = {"tokens": "abc", "weights_s": seconds, "cache_bytes": 1, "tokens_per_s": 10.0}
    elif what == "generate":
        answer = {"tokens": "abc", "tokens_per_s": 100.0}
    elif what == "weight_bytes":
        answer = {"bytes": 1000}
    else:
        answer = {"device_used": 0}
    print(json.dumps(answer), flush=True)
"""


def measured(tmp_path: Path, *, fails: bool) -> tuple[int, dict[str, object]]:
    """Run the measurements with engines, a mirror and a model that are made up; return the status, and the results."""
    place = tmp_path / "program"
    (place / "bin").mkdir(parents=True)
    shutil.copy(PROGRAMS / "measure.py", place)
    (place / "engine.py").write_text(f"FAILS = {fails}\n{ENGINE}")
    (place / "models.py").write_text("import sys\nfor name in sys.argv[2:]:\n    print(name, 0.1, flush=True)\n")
    for name, text in (("tetris", "exit 0"), ("simulated", "exec sleep 600")):
        (place / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (place / "bin" / name).chmod(0o755)
    out = tmp_path / "out"
    command = [sys.executable, place / "measure.py", "--simulated", "--out", out, "--work", tmp_path / "work"]
    done = subprocess.run([*command, "--limit-s", "120"], capture_output=True, text=True, timeout=150)
    found: dict[str, object] = json.loads((out / "engines.json").read_text())
    return done.returncode, found


def test_measurements_keep_each_figure(tmp_path: Path) -> None:
    status, found = measured(tmp_path, fails=False)
    assert status == 0, found
    figures = found["figures"]
    assert isinstance(figures, dict)
    assert figures["tiny: weights of the second engine"] == {"stock_s": 0.5, "mirror_s": 0.01, "ratio": 0.02}
    assert figures["tiny: tokens as stock's"]["equal"] is True
    assert figures["tiny: tokens/s"]["ratio"] == 1.0


def test_a_step_that_fails_says_why_and_keeps_what_was_measured_before(tmp_path: Path) -> None:
    status, found = measured(tmp_path, fails=True)
    assert status == 1
    steps, figures = found["steps"], found["figures"]
    assert isinstance(steps, list)
    assert isinstance(figures, dict)
    [step] = [step for step in steps if step["step"] == "tiny"]
    assert step["outcome"] == "failed"
    assert step["reason"] == "engine tiny-first, load: RuntimeError: no room"
    assert figures["tiny: stock"]["tokens"] == "abc"


def test_measurements_without_their_programs_say_what_is_missing(tmp_path: Path) -> None:
    command = [sys.executable, PROGRAMS / "measure.py", "--simulated", "--bin", tmp_path / "nothing"]
    done = subprocess.run(
        [*command, "--out", tmp_path / "out", "--work", tmp_path / "work"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "begin: failed" in done.stdout
    assert "nothing/tetris" in done.stdout


def test_lines_that_came_together_are_had_one_by_one() -> None:
    measure = program("measure")
    with subprocess.Popen(
        [sys.executable, "-c", "print('one\\ntwo'); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        lines = measure.Lines(process.stdout)
        assert lines.next(60) == "one"
        # The process writes nothing more.
        assert lines.next(60) == "two"
        assert lines.next(0) is None
        process.communicate(b"\n")
