"""The log: nothing silent, nothing twice, every line with the project's name."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import model_files
import pytest
import tetris
import tetris.torch
import torch
from model_files import floats, settle
from process import python, run
from tetris import _agent

DATA = floats([128, 256]).data

#: Prints the records of a program as JSON: logger, level and message.
RECORDS = """
    import json, logging, sys
    records = []
    class Keep(logging.Handler):
        def emit(self, record):
            records.append([record.name, record.levelname, record.getMessage()])
    logging.getLogger().addHandler(Keep())
    logging.getLogger("tetris").setLevel(logging.INFO)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file."""
    return model_files.write(tmp_path / "file", {"w": floats([128, 256])})


def records(program: str, *arguments: object, env: dict[str, str] | None = None) -> list[list[str]]:
    """Records of a program."""
    whole = textwrap.dedent(RECORDS) + textwrap.dedent(program) + "\nprint(json.dumps(records))"
    return python(whole, *arguments, env=env)


def test_a_process_that_shares_says_so_in_one_line(store: Path, path: Path) -> None:
    program = """
        import tetris, tetris.numpy
        for _ in range(3):
            tetris.numpy.load_file(sys.argv[1])
            tetris.load(sys.argv[1])
    """
    [[logger, level, message]] = records(program, path)
    assert logger.split(".")[0] == "tetris" and level == "INFO"
    assert message.startswith("Tetris: ") and str(store) in message and str(path) in message
    assert "because=" in message and "TETRIS_STORE" in message


def test_a_patched_process_says_it_as_well(store: Path, path: Path) -> None:
    program = "from safetensors.numpy import load_file; load_file(sys.argv[1]); load_file(sys.argv[1])"
    [[_, level, message]] = records(program, path, env={"TETRIS_PATCH": "1"})
    assert level == "INFO" and str(store) in message


def test_weights_that_are_shared_from_memory_are_told_once(store: Path) -> None:
    program = """
        import tetris.torch, torch
        for _ in range(2):
            tetris.torch.share_module_(torch.nn.Linear(256, 128, bias=False))
    """
    [[logger, level, message]] = records(program)
    assert (logger, level) == ("tetris", "INFO")
    assert "Linear" in message and str(store) in message and "bytes_published=131072" in message


def test_without_a_store_one_warning_names_the_command_that_makes_one(path: Path, tmp_path: Path) -> None:
    program = "import tetris; tetris.load(sys.argv[1]); tetris.load(sys.argv[1])"
    [[logger, level, message]] = records(program, path, env={"TETRIS_STORE": str(tmp_path / "nowhere")})
    assert (logger, level) == ("tetris", "WARNING")
    assert str(tmp_path / "nowhere") in message and "tetris.create_store" in message and "--store" not in message


def test_a_load_that_stays_private_is_told_with_the_model_and_a_remedy(store: Path, path: Path) -> None:
    program = """
        import os, tetris, tetris._agent
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        tetris.load(sys.argv[1]); tetris.load(sys.argv[1])
    """
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    for one in [store, *store.rglob("*")]:
        one.chmod(0o755 if one.is_dir() else 0o644)
    for folder in [store.parent, *[parent for parent in path.parents if str(parent).startswith("/tmp/")]]:
        folder.chmod(0o755)
    path.chmod(0o644)
    [[logger, level, message]] = records(program, path)
    assert logger.split(".")[0] == "tetris" and level == "WARNING"
    assert message.startswith("Tetris: ") and str(path) in message
    # An option of the daemon, not one that a program in Python has.
    assert "--store" not in message.replace("tetris-node run --store", "")
    assert "remedy" in message


def test_messages_of_programs_without_a_log_name_the_project(path: Path, tmp_path: Path) -> None:
    done = run("import sys, tetris; tetris.load(sys.argv[1])", path, env={"TETRIS_STORE": str(tmp_path / "none")})
    assert done.returncode == 0 and done.stderr.startswith("Tetris: ")


def test_a_level_that_is_raised_later_counts(store: Path, path: Path) -> None:
    program = """
        import tetris
        tetris.load(sys.argv[1])
        del records[:]
        logging.getLogger("tetris").setLevel(logging.DEBUG)
        tetris.load(sys.argv[1])
    """
    [[logger, level, message]] = records(program, path)
    assert (logger, level) == ("tetris", "DEBUG") and str(path) in message


def test_a_number_of_bytes_that_is_none_is_told_by_the_package_s_logger(path: Path) -> None:
    program = "import tetris; tetris.agent()"
    told = records(program, env={"TETRIS_MIN_SHARED_BYTES": "64KiB"})
    [[logger, level, message]] = [one for one in told if "TETRIS_MIN_SHARED_BYTES" in one[2]]
    assert (logger, level) == ("tetris", "WARNING") and "'64KiB'" in message


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the agent: its last entry."""
    times = [1000.0]
    monkeypatch.setattr(_agent, "monotonic", lambda: times[-1])
    monkeypatch.setattr(_agent, "_made", None)
    return times


def test_a_store_that_is_created_after_the_first_load_is_noticed(
    empty_dir: Path,
    path: Path,
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    later = empty_dir / "later"
    monkeypatch.setenv("TETRIS_STORE", str(later))
    assert tetris.load(path)["w"].origin == "private"
    first = tetris.agent()
    tetris.create_store(later)
    # No process looks more often than once in a second.
    clock.append(clock[-1] + 0.9)
    assert tetris.agent() is first
    clock.append(clock[-1] + 0.2)
    assert tetris.load(path)["w"].origin == "new"
    assert str(tetris.agent().store) == str(later)
    assert tetris.torch.load_file(path)["w"].numpy().tobytes() == DATA
    assert len([record for record in caplog.records if "nothing is shared" in record.getMessage()]) == 1


def test_an_agent_without_a_store_keeps_its_counts_and_a_new_reason_is_told(
    empty_dir: Path,
    path: Path,
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    later = empty_dir / "later"
    monkeypatch.setenv("TETRIS_STORE", str(later))
    for _ in range(3):
        tetris.load(path)
        clock.append(clock[-1] + 2)
    assert tetris.agent().counters["loads"] == 3
    later.mkdir()
    clock.append(clock[-1] + 2)
    assert "not a tensor store" in str(tetris.agent().unavailable)
    said = [record.getMessage() for record in caplog.records if "nothing is shared" in record.getMessage()]
    assert len(said) == 2 and "not a tensor store" in said[1]


def test_a_switch_of_the_mirror_that_is_not_understood_is_told_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TETRIS_GPU", "never")
    for _ in range(2):
        tetris.torch.load_file(path)
    [said] = [record.getMessage() for record in caplog.records if "TETRIS_GPU" in record.getMessage()]
    assert "'never'" in said and "off" in said


def test_counters_show_shared_bytes_beside_private_ones(store: Path, path: Path) -> None:
    settle(path)
    before = tetris.agent().counters
    tetris.load(path)
    first = tetris.agent().counters
    assert first["new_bytes"] - before["new_bytes"] == len(DATA) and first["shared_bytes"] == before["shared_bytes"]
    tetris.torch.load_file(path)
    assert tetris.agent().counters["shared_bytes"] - first["shared_bytes"] == len(DATA)


def test_a_report_of_many_names_is_short() -> None:
    module = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(30)])
    report = tetris.torch.share_module_(module)
    assert len(report.private_names) == 60 and len(repr(report)) < 300
    assert "60 names" in repr(report) and "'0.weight'" in repr(report) and f"{report}" == repr(report)
    few = tetris.torch.ShareReport(private_names=["a", "b"])
    assert "private_names=['a', 'b'])" in repr(few)
