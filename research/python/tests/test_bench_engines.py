"""The benchmark of engines with the smallest models: it runs, outputs agree, nothing is left. No time is judged."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")
numpy = pytest.importorskip("numpy")

from tetris_bench.engines import figures
from tetris_bench.engines.__main__ import _exit_code
from tetris_bench.engines.models import Shape, of_folder, write
from tetris_bench.engines.registry import BY_NAME, STOCK, TETRIS
from tetris_bench.engines.report import engine as shown

QUICK = ("--layers", "2", "--width", "256", "--replicas", "2", "--rounds", "1", "--runs", "2", "--format", "json")


def bench(workdir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tetris_bench.engines", "--workdir", str(workdir), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def measured(workdir: Path, *arguments: str) -> dict[str, Any]:
    result = bench(workdir, *QUICK, *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    assert not list(workdir.iterdir())
    return json.loads(result.stdout)


def check(engine: dict[str, Any]) -> None:
    """An engine has all figures, its outputs agree, and its replicas through the store share one copy."""
    assert engine["outcome"] == "measured", engine
    assert engine["outputs_agree"]
    assert list(engine["ways"]) == [STOCK, TETRIS]
    for way in engine["ways"].values():
        assert len(way["first_s"]) == len(way["next_s"]) == 1 and len(way["per_second"]) == 2
        assert min(way["first_s"] + way["next_s"] + way["per_second"]) > 0
    bars = {bar["name"]: bar for bar in engine["bars"]}
    assert set(bars) == {"memory of 2 replicas", "weights in the next replicas", "speed", "outputs"}
    assert bars["outputs"]["met"] is True
    # Of such a small model private memory of the interpreters hides the share, but not the store's pages that they use.
    [group] = engine["ways"][TETRIS]["groups"]
    assert group["mapped_bytes"] > 0.5 * engine["weight_bytes"]
    [group] = engine["ways"][STOCK]["groups"]
    assert group["mapped_bytes"] == 0


def test_modules_made_in_memory_and_layouts_are_measured(tmp_path: Path) -> None:
    report = measured(tmp_path, "--engines", "share-module,layout")
    assert report["schema"] == "tetris-engines-bench/1" and report["machine"]["cores"] > 0
    assert [engine["engine"] for engine in report["engines"]] == ["share-module", "layout"]
    for engine in report["engines"]:
        check(engine)
        assert engine["versions"]["torch"]


def test_casts_of_transformers_are_measured_with_a_copy_of_the_files_each(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    [engine] = measured(tmp_path, "--engines", "transformers", "--own-files")["engines"]
    check(engine)


def test_llama_cpp_is_measured_with_a_copy_of_the_file_each_and_no_limit_for_its_time(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    pytest.importorskip("gguf")
    # The kernel names mapped files by the folder itself.
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    [engine] = measured(link, "--engines", "llama-cpp")["engines"]
    check(engine)
    stock, ours = (engine["ways"][way]["medians"]["copies"] for way in (STOCK, TETRIS))
    assert stock > ours + 0.5
    time = engine["bars"][1]
    assert (time["limit"], time["met"]) == (None, None) and time["measured"] > 0


def test_engines_that_are_not_installed_are_skipped_with_the_reason(tmp_path: Path) -> None:
    without_packages = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", without_packages], check=True)
    workdir = tmp_path / "work"
    workdir.mkdir()
    python = without_packages / "bin" / "python"
    options = ("--engines", "layout,vllm", "--python", f"vllm={python}", "--python", "layout=/there/is/none")
    layout, vllm = measured(workdir, *options)["engines"]
    assert (layout["outcome"], vllm["outcome"]) == ("skipped", "skipped")
    assert layout["reason"] == "cannot start /there/is/none: No such file or directory"
    assert str(python) in vllm["reason"] and "tetris" in vllm["reason"]


@pytest.mark.parametrize(
    "arguments",
    [("--engines", "magic"), ("--width", "100"), ("--replicas", "0"), ("--python", "vllm"), ("--python", "magic=x")],
)
def test_wrong_options_are_refused_with_the_usage_code(tmp_path: Path, arguments: tuple[str, str]) -> None:
    assert bench(tmp_path, *arguments).returncode == 2


def test_help_says_units() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tetris_bench.engines", "--help"], capture_output=True, text=True, check=True
    )
    shown = " ".join(done.stdout.split())
    for part in ("exit codes:", "SECONDS", "seconds and bytes", *BY_NAME):
        assert part in shown


def test_an_empty_model_differs_in_its_inner_layers_alone(tmp_path: Path) -> None:
    shape = Shape.of(2, 256)
    write(tmp_path / "empty", shape.empty(), 1)
    found = of_folder(tmp_path / "empty")
    assert found.inner < shape.inner and replace(found, inner=shape.inner) == shape


def test_models_of_one_seed_are_the_same(tmp_path: Path) -> None:
    contents = []
    for number, seed in enumerate((1, 1, 2)):
        write(tmp_path / str(number), Shape.of(1, 128), seed)
        contents.append((tmp_path / str(number) / "model.safetensors").read_bytes())
    assert contents[0] == contents[1] != contents[2]


MIB = 1 << 20


def group(after: int, output: str = "same", seconds: tuple[float, ...] = (1.0, 1.0)) -> dict[str, Any]:
    return {
        "before_bytes": 40 * MIB,
        "after_bytes": after * MIB,
        "unmapped_bytes": 0,
        "weights_s": list(seconds),
        "weight_bytes": [100 * MIB] * len(seconds),
        "outputs": [output] * len(seconds),
        "empty": None,
    }


def way(whole: dict[str, Any], speed: float) -> dict[str, Any]:
    return {"description": "", "groups": [whole], "per_second": [speed] * 3}


def verdicts(ours: dict[str, Any], speed: float = 10.0) -> list[bool | None]:
    ways = {STOCK: way(group(240), 10.0), TETRIS: way(ours, speed)}
    return [bar["met"] for bar in figures.of(2, ways)["bars"]]


def test_bars_judge_copies_times_speed_and_outputs() -> None:
    assert verdicts(group(140, seconds=(2.0, 0.05))) == [True, True, True, True]
    assert verdicts(group(150, seconds=(2.0, 0.2))) == [False, False, True, True]
    assert verdicts(group(140, output="other", seconds=(2.0, 0.05)), speed=9.7) == [True, True, False, False]


def test_a_bar_without_a_limit_is_measured_and_not_judged() -> None:
    ways = {STOCK: way(group(240), 10.0), TETRIS: way(group(140), 10.0)}
    found = figures.of(2, ways, has_time_limit=False)
    time = found["bars"][1]
    assert (time["measured"], time["limit"], time["met"]) == (1.0, None, None)
    about = {"engine": "one", "description": "", "outcome": "measured", "versions": {}, "unit": "tokens/s"}
    assert "not judged" in shown(found | about)


def test_outputs_that_differ_and_failures_have_codes() -> None:
    good, differs = ({"outcome": "measured", "outputs_agree": agree} for agree in (True, False))
    skipped, failed = {"outcome": "skipped"}, {"outcome": "failed"}
    assert _exit_code({"engines": [good, skipped]}) == 0
    assert _exit_code({"engines": [good, failed]}) == 1
    assert _exit_code({"engines": [failed, differs, good]}) == 3


def test_weights_of_an_empty_model_are_left_out() -> None:
    empty = group(50) | {"weight_bytes": [10 * MIB, 10 * MIB]}
    ours, stock = group(140) | {"empty": empty}, group(240) | {"empty": group(60) | {"weight_bytes": [None, None]}}
    ways = {STOCK: way(stock, 10.0), TETRIS: way(ours, 10.0)}
    figures.of(2, ways)
    assert [ways[name]["copies"] for name in (STOCK, TETRIS)] == [[2.0], [1.0]]


def test_one_replica_has_no_next_one() -> None:
    ways = {name: way(group(140, seconds=(1.0,)), 10.0) for name in (STOCK, TETRIS)}
    found = figures.of(1, ways)
    assert [bar["met"] for bar in found["bars"]][1] is None
