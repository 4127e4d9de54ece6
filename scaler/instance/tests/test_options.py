"""Options from arguments and the environment, and CPUs from the kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tetris_instance import options
from tetris_instance.cpus import available_cpus, threads_per_worker
from tetris_instance.errors import ConfigurationError
from tetris_instance.options import Options

PATH = ["--model-path", "/models/some-model"]


def parse(*arguments: str, **environment: str) -> Options:
    return options.parse([*PATH, *arguments], environment)


def test_defaults() -> None:
    found = parse()
    assert (found.batch, found.concurrency, found.queue_rows, found.port) == (1, 1, 64, 8000)
    assert (found.model_name, found.model_version, found.engine) == ("some-model", "1", "auto")
    assert found.cpus == available_cpus()
    assert found.batch_wait_s is None


def test_the_environment_says_what_the_scaler_chose() -> None:
    found = parse(
        TETRIS_BATCH="8",
        TETRIS_CONCURRENCY="2",
        TETRIS_CPU_MILLIS="2500",
        TETRIS_PORT="1",
        TETRIS_BATCH_WAIT_MILLIS="3",
    )
    assert (found.batch, found.concurrency, found.cpus, found.port) == (8, 2, 2.5, 1)
    assert found.batch_wait_s == 0.003
    assert found.queue_rows == 128


def test_arguments_go_before_the_environment() -> None:
    found = parse(
        "--batch", "4", "--concurrency", "3", "--cpus", "1.5", "--port", "0",
        TETRIS_BATCH="8", TETRIS_CONCURRENCY="2", TETRIS_CPU_MILLIS="2500", TETRIS_PORT="1",
    )  # fmt: skip
    assert (found.batch, found.concurrency, found.cpus, found.port) == (4, 3, 1.5, 0)


def test_an_empty_variable_is_not_set() -> None:
    assert parse(TETRIS_BATCH="").batch == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["--batch", "0"], {}, "--batch is '0'; expected an integer of 1 to 4096"),
        (["--batch", "1.5"], {}, "--batch is '1.5'; expected an integer"),
        ([], {"TETRIS_BATCH": "many"}, "TETRIS_BATCH is 'many'; expected an integer"),
        (["--concurrency", "-1"], {}, "--concurrency is '-1'"),
        (["--cpus", "nan"], {}, "--cpus is 'nan'; expected a number"),
        ([], {"TETRIS_CPU_MILLIS": "0"}, "TETRIS_CPU_MILLIS is '0'; expected an integer of 1 to"),
        (["--batch-wait-millis", "-0.1"], {}, "--batch-wait-millis is '-0.1'"),
        (["--batch", "8", "--queue", "7"], {}, "--queue is '7'; expected an integer of 8 to"),
        (["--port", "65536"], {}, "--port is '65536'"),
        (["--max-body-mib", "inf"], {}, "--max-body-mib is 'inf'"),
        (["--stop-seconds", "x"], {}, "--stop-seconds is 'x'"),
        (["--model-name", "a/b"], {}, "--model-name is 'a/b'; expected a name without `/`"),
    ],
)
def test_errors_name_the_option(arguments: list[str], environment: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(*arguments, **environment)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("text", ["x", "x=", "=1", "x=0", "x=-1", "x=99999999"])
def test_dimensions_are_checked(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--dimension", text)
    assert "expected NAME=SIZE" in capsys.readouterr().err


def test_dimensions_are_collected() -> None:
    assert parse("--dimension", "s=16", "--dimension", "a=b=2").dimensions == {"s": 16, "a=b": 2}


@pytest.mark.parametrize(
    ("cpus", "workers", "threads"),
    [(1.0, 1, 1), (2.0, 1, 2), (2.0, 2, 1), (3.0, 2, 1), (0.5, 1, 1), (2.9, 1, 2), (1.0, 4, 1)],
)
def test_workers_share_the_cpus(cpus: float, workers: int, threads: int) -> None:
    assert threads_per_worker(cpus, workers) == threads


class TestCgroups:
    @staticmethod
    def cpus(tmp_path: Path, name: str, **quotas: str) -> float:
        own = tmp_path / "own"
        own.write_text(f"0::{name}\n")
        cgroups = tmp_path / "cgroups"
        for path, quota in quotas.items():
            folder = cgroups / path.replace("_", "/")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cpu.max").write_text(quota + "\n")
        return available_cpus(cgroups, own)

    def test_the_smallest_quota_on_the_way_up_counts(self, tmp_path: Path) -> None:
        all_cpus = len(os.sched_getaffinity(0))
        assert self.cpus(tmp_path, "/pods/one", pods="50000 100000", pods_one="max 100000") == min(0.5, all_cpus)
        assert self.cpus(tmp_path, "/pods/two", pods_two="20000 100000") == 0.2
        assert self.cpus(tmp_path, "/pods_x", pods="max 100000") == all_cpus

    def test_what_cannot_be_read_is_no_limit(self, tmp_path: Path) -> None:
        all_cpus = len(os.sched_getaffinity(0))
        assert available_cpus(tmp_path / "none", tmp_path / "none") == all_cpus
        assert self.cpus(tmp_path, "/a", a="nonsense") == all_cpus
        assert self.cpus(tmp_path, "/b", b="0 0 0") == all_cpus
        assert self.cpus(tmp_path, "/../../..", a="100 0") == all_cpus
