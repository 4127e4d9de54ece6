"""The benchmark of models on a GPU, with a simulated device and the smallest models: it runs, first tokens agree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from gpu_mirror import MIB, Mirror

from tetris_bench.gpu import functions, report, starts
from tetris_bench.gpu.models import write, write_bytes
from tetris_bench.gpu.shapes import shape_of

ROOM = 6 * MIB


def bench(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "tetris_bench.gpu",
        "--device",
        "simulated",
        "--workdir",
        str(folder),
        "--part-mib",
        "1",
    ]
    return subprocess.run([*command, *options], capture_output=True, text=True, check=False)


def measured(folder: Path, *options: str) -> dict[str, Any]:
    done = bench(folder, "--format", "json", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    # Nothing stays in the folder.
    assert [path.name for path in folder.iterdir()] == []
    return json.loads(done.stdout)


def test_starts_and_swaps(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    kept = tmp_path / "kept.json"
    with Mirror(store, ROOM):
        options = ("--only", "starts,swaps", "--models", "2x128", "--swaps", "1x128", "--tokens", "8", "--rounds", "2")
        found = measured(folder, *options, "--keep", str(kept))
    assert json.loads(kept.read_text()) == found
    (start,) = found["figures"]["starts"]
    assert set(start["median_s"]) >= {starts.WARM, starts.COLD, starts.PREFIX, starts.PINNED, starts.FILE}
    assert start["answers"] == 1
    assert 0 <= start["prefix_share"] <= 1
    (swap,) = found["figures"]["swaps"]
    assert swap["bytes"] > MIB and swap["bytes_per_second"] > 0
    assert any("time to the first token" in line for line in report.lines(found))


def test_functions_of_an_executor_and_of_processes(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with Mirror(store, 2 * ROOM):
        options = (
            "--only",
            "functions",
            "--functions",
            "3",
            "--kinds",
            "1x128,2x128",
            "--rates",
            "20",
            "--seconds",
            "0.5",
        )
        found = measured(folder, *options, "--text", "4")
    served = found["figures"]["functions"]
    assert served["answers_agree"]
    assert served["room_bytes"] < served["bytes"] < 2 * ROOM
    for way in functions.WAYS:
        assert served["ways"][way]["throughput"] > 0
        (rate,) = served["ways"][way]["rates"]
        assert 0 < rate["p50_s"] <= rate["p99_s"] < 60


def test_a_part_without_room_fails_and_the_others_are_reported(store: Path, tmp_path: Path) -> None:
    with Mirror(store, MIB):
        done = bench(tmp_path, "--only", "starts", "--models", "2x128", "--tokens", "8", "--rounds", "1")
    assert done.returncode == 1
    assert "starts failed" in done.stderr


@pytest.mark.parametrize("text", ["2B", "0x128", "2x100", "x", "2x"])
def test_unknown_models_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected 1B, 7B or LAYERSxWIDTH"):
        shape_of(text)


def test_the_files_are_those_of_safetensors(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    length = write(tmp_path / "model", shape_of("1x128"), 1, "cpu")
    tensors = load_file(tmp_path / "model")
    assert sum(tensor.nbytes for tensor in tensors.values()) == length
    assert tensors["lm_head.weight"].dtype == torch.bfloat16
    assert tensors["lm_head.weight"].float().std() > 0
    write_bytes(tmp_path / "bytes", 1000, 2, "cpu")
    assert load_file(tmp_path / "bytes")["bytes-0"].unique().numel() > 200


def test_the_same_requests_arrive_in_both_ways() -> None:
    planned = functions.arrivals(20, 0.9, 100.0, 10.0, 7)
    assert planned == functions.arrivals(20, 0.9, 100.0, 10.0, 7)
    assert 800 < len(planned) < 1200
    assert {function for _, function in planned} <= set(range(20))
    counts = [sum(function == number for _, function in planned) for number in range(20)]
    shares = functions.popularity(20, 0.9)
    assert counts[shares.index(max(shares))] == max(counts)


def test_quantiles() -> None:
    assert report.quantile([3.0, 1.0, 2.0, 4.0], 0.5) == 2.0
    assert report.quantile(list(map(float, range(1, 101))), 0.99) == 99.0
