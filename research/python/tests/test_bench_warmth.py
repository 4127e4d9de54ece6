"""The benchmark of processes that are ready."""

import json
import subprocess
import sys

import pytest


def test_the_benchmark_says_what_is_saved() -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "tetris_bench.warmth", "--rounds", "2", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert set(found["median_s"]) == {"nothing", "modules", "kernels_from_trace", "kernels"}
    assert found["trace"]["ran"] > 10 and found["trace"]["left_out"] == 0
    assert found["tokens"] == 1
    assert found["private_bytes"]["modules"] > 0
