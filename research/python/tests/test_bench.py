"""The benchmark with a tiny model: everything runs, outputs agree, nothing is left. No timing is judged."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
safetensors_torch = pytest.importorskip("safetensors.torch")

from tetris_bench import agreement, models, stats, text
from tetris_bench.methods import BY_NAME

TIMES = ("load_ns", "touch_ns", "touch_again_ns", "load_and_touch_ns", "first_inference_ns", "first_result_ns")
QUICK = ("--rounds", "1", "--processes", "2", "--passes", "2", "--files", "0", "--format", "json")


def bench(workdir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tetris_bench", "--workdir", str(workdir), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def measured(workdir: Path, *arguments: str) -> dict[str, Any]:
    result = bench(workdir, *QUICK, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    assert not list(workdir.iterdir())
    assert str(workdir) not in Path("/proc/mounts").read_text()
    return json.loads(result.stdout)


def test_every_kind_of_memory_is_measured_and_agrees(tmp_path: Path) -> None:
    names = ["clone", "safetensors", "safetensors-own-file", "shared-memory", "tetris", "tetris-own-file"]
    report = measured(tmp_path, "--size", "2MB", "--methods", ",".join(names))
    assert report["schema"] == "tetris-python-bench/1"
    assert report["versions"]["torch"] and report["machine"]["cores"] > 0 and report["seed"] == 1
    [model] = report["models"]
    assert model["outputs_agree"] and model["tensors"] == 372 and model["first_load_ns"] > 0
    assert [entry["method"] for entry in model["methods"]] == names
    for entry in model["methods"]:
        assert entry["outcome"] == "measured", entry
        [sample] = entry["samples"]
        assert all(sample[key] > 0 and entry["medians"][key] == sample[key] for key in TIMES)
        assert entry["memory"]["processes"] == 2 and entry["memory"]["interpreter_bytes"] > 0
    assert {entry["method"] for entry in model["inference"]} >= {"clone", "clone-again", "tetris"}
    assert all(len(entry["infer_ns"]) == 2 for entry in model["inference"])
    by_name = {(bar["name"], bar["formula"]): bar for bar in model["bars"]}
    assert by_name["load", "tetris / safetensors"]["measured"] > 0
    assert by_name["load + first touch", "tetris / pread"]["met"] is None


def test_a_given_file_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    workdir = tmp_path / "work"
    workdir.mkdir()
    file = tmp_path / "given.safetensors"
    safetensors_torch.save_file({"a": torch.ones(64, 32), "b": torch.arange(5)}, file)
    before = file.read_bytes()
    report = measured(workdir, "--size", "0", "--model", str(file), "--methods", "safetensors,pread")
    assert [model["name"] for model in report["models"]] == ["given"]
    assert file.read_bytes() == before


def test_what_is_not_installed_is_skipped_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    (fakes / "runai_model_streamer.py").write_text("raise ImportError('for another Python')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(fakes), os.environ["PYTHONPATH"]]))
    workdir = tmp_path / "work"
    workdir.mkdir()
    report = measured(workdir, "--size", "1MB", "--methods", "safetensors,runai-streamer")
    entry = report["models"][0]["methods"][1]
    assert entry["outcome"] == "skipped" and "for another Python" in entry["reason"]


def test_small_files_are_measured_with_and_without_the_patch(tmp_path: Path) -> None:
    report = measured(tmp_path, "--size", "0", "--files", "3")
    small = report["small"]
    assert report["models"] == [] and small["small_files"] == 3
    assert len(small["cases"]) == len(small["bars"]) == 6
    for case, bar in zip(small["cases"], small["bars"], strict=True):
        assert case["name"] == bar["name"] and bar["measured"] > 0 and bar["met"] in (True, False)
        assert all(sum(map(len, case["turns_ns"][name])) == 3 for name in ("plain", "patched"))


def test_tables_name_machine_seed_and_bars(tmp_path: Path) -> None:
    result = bench(
        tmp_path,
        "--files",
        "1",
        "--size",
        "1MB",
        "--rounds",
        "1",
        "--processes",
        "1",
        "--passes",
        "1",
        "--methods",
        "tetris,safetensors",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    for part in ("machine: ", "seed 1", "tetris / safetensors", "not measured", "first touch", "fresh file of 4 KiB"):
        assert part in result.stdout
    assert result.stderr == ""


def test_an_interrupt_cleans_up_and_has_its_own_code(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tetris_bench", "--workdir", str(tmp_path), "--size", "1MB"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        # The head is printed once the run is under way.
        assert process.stdout.readline().startswith("machine: ")
        # As SIGINT, which the starter of the tests may have told all processes to ignore.
        os.kill(process.pid, signal.SIGTERM)
        process.communicate()
    assert process.returncode == 130
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        ("--methods", "magic"),
        ("--size", "lots"),
        ("--size", "infGB"),
        ("--rounds", "0"),
        ("--files", "1.5"),
        ("--model", "no"),
    ],
)
def test_wrong_options_are_refused_with_the_usage_code(tmp_path: Path, arguments: tuple[str, str]) -> None:
    assert bench(tmp_path, *arguments).returncode == 2


def test_the_synthetic_model_has_the_size_asked_for() -> None:
    for size in (2_000_000, 1_200_000_000):
        shapes = models.shapes(size)
        total = sum(4 * torch.Size(shape).numel() for shape in shapes.values())
        assert len(shapes) == 372 and size <= total < 1.05 * size


def test_a_changed_weight_or_output_is_a_disagreement() -> None:
    sample = {"checksum": "a", "output": [1.0, 2.0]}
    assert agreement.disagreement({"one": [sample], "two": [dict(sample)]}) == ""
    assert "two" in agreement.disagreement({"one": [sample], "two": [sample | {"checksum": "b"}]})
    assert "two" in agreement.disagreement({"one": [sample], "two": [sample | {"output": [1.0, 2.1]}]})


def test_ratios_are_of_medians_and_intervals_hold_them() -> None:
    found = stats.ratio([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    assert found is not None and found.value == found.low == found.high == 0.5
    assert stats.ratio([], [1.0]) is None
    # With 6 samples, 95 % need all of them; with 9, one at each end may go.
    assert stats.median_interval([float(value) for value in range(6)]) == (0.0, 5.0)
    assert stats.median_interval([float(value) for value in range(9)]) == (1.0, 7.0)


def test_every_method_says_what_it_needs() -> None:
    assert all(method.description and method.module for method in BY_NAME.values())


def test_columns_without_room_on_the_terminal_follow_below(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("method", "load", "first touch", "memory"), ("tetris", "1 ms", "2 ms", "1.000 copies"), ("clone", *"345")]
    monkeypatch.setenv("COLUMNS", "32")
    lines = text.table(rows)
    assert [line.split("  ") for line in lines[:1]] == [["", "method", "load", "first touch"]]
    assert lines[4:] == ["", "  method  memory", "  ------  ------------", "  tetris  1.000 copies", "  clone   5"]
    assert max(map(len, lines)) <= 32
    monkeypatch.setenv("COLUMNS", "41")
    assert len(text.table(rows)) == len(rows) + 1, "there is room for all"
    monkeypatch.setenv("COLUMNS", "3")
    assert len(text.table(rows)) == 3 * (len(rows) + 1) + 2, "one column beside the first, at least"


def test_running_text_keeps_its_indent() -> None:
    lines = text.prose("  clone: " + "word " * 40).splitlines()
    assert lines[0].startswith("  clone: word") and all(line.startswith("    word") for line in lines[1:])
    assert len(lines) == 3 and max(map(len, lines)) <= text.WIDTH
