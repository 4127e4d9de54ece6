"""Processes that are ready before they are needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tetris.warm import Pool, WarmError

HERE = Path(__file__).parent
LONG_S = 120.0


def eventually(what: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool(2, modules=["json"], prepare="warm_jobs:prepare") as made:
        yield made


def test_a_process_does_one_job_and_leaves_nothing_to_the_next(pool: Pool) -> None:
    answers = []
    for number in range(4):
        secret = f"secret {number}"
        job = pool.run("warm_jobs:seen", secret, environment={"TETRIS_TEST_SECRET": secret})
        answers.append(job.result(LONG_S))
        assert answers[-1][0] == job.pid
    assert len({pid for pid, *_ in answers} | {os.getpid()}) == 5
    assert [left for _, left, *_ in answers] == [["prepared"]] * 4
    assert [secret for *_, secret, _ in answers] == [f"secret {number}" for number in range(4)]
    assert "TETRIS_TEST_SECRET" not in os.environ
    assert pool.run("warm_jobs:seen", "x").result(LONG_S)[2] is None


def test_so_many_are_ready_and_again_after_a_job(pool: Pool) -> None:
    pool.wait()
    assert pool.ready > 0
    eventually(lambda: pool.ready == 2)
    assert pool.private_bytes > 0
    jobs = [pool.run("warm_jobs:seen", "x") for _ in range(3)]
    assert len({job.result(LONG_S)[0] for job in jobs}) == 3
    eventually(lambda: pool.ready == 2)


def test_errors_are_the_callers(pool: Pool) -> None:
    with pytest.raises(KeyError, match="absent"):
        pool.run("warm_jobs:raises").result(LONG_S)
    with pytest.raises(WarmError, match="status 7 and no result"):
        pool.run("warm_jobs:ends").result(LONG_S)
    with pytest.raises(WarmError, match="cannot be sent"):
        pool.run("warm_jobs:unsendable").result(LONG_S)
    with pytest.raises(ModuleNotFoundError):
        pool.run("no_such_module:main").result(LONG_S)
    job = pool.run("warm_jobs:sleeps")
    with pytest.raises(TimeoutError):
        job.result(0.05)
    job.terminate()
    eventually(lambda: not Path(f"/proc/{job.pid}").exists())


@pytest.mark.parametrize("name", ["", "module", ":function", "module:"])
def test_names_are_checked(pool: Pool, name: str) -> None:
    with pytest.raises(ValueError, match="module:function"):
        pool.run(name)
    with pytest.raises(ValueError, match="module:function"):
        Pool(1, prepare=name)
    with pytest.raises(ValueError, match="at least 1"):
        Pool(0)


def test_what_cannot_become_ready_is_told_each_time() -> None:
    with Pool(1, modules=["json"], prepare="warm_jobs:fail") as pool:
        for _ in range(2):
            with pytest.raises(WarmError, match="no kernels here"):
                pool.run("warm_jobs:seen", "x")
            with pytest.raises(WarmError, match="no kernels here"):
                pool.wait()
        assert pool.ready == 0


def test_memory_is_bounded() -> None:
    # Each of them has 64 MiB.
    with Pool(4, modules=["json"], prepare="warm_jobs:prepare_much", memory_bytes=160 << 20) as pool:
        eventually(lambda: pool.ready == 2)
        time.sleep(0.3)
        assert pool.ready == 2
        assert 128 << 20 < pool.private_bytes <= 160 << 20
        # Requests are served all the same.
        jobs = [pool.run("warm_jobs:seen", "x") for _ in range(4)]
        assert len({job.result(LONG_S)[0] for job in jobs}) == 4


def test_a_process_that_was_killed_is_passed_over(pool: Pool) -> None:
    eventually(lambda: pool.ready == 2)
    for process, _, _ in list(pool._ready):
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    assert pool.run("warm_jobs:seen", "x").result(LONG_S)[1] == ["prepared"]


def test_a_closed_pool_has_no_processes() -> None:
    pool = Pool(2, modules=["json"])
    eventually(lambda: pool.ready == 2)
    pids = [process.pid for process, _, _ in pool._ready]
    pool.close()
    assert pool.ready == 0 and not any(Path(f"/proc/{pid}").exists() for pid in pids)
    with pytest.raises(WarmError, match="closed"):
        pool.run("warm_jobs:seen", "x")


def test_nothing_stays_after_an_owner_that_is_killed() -> None:
    program = """
import time
from tetris.warm import Pool
if __name__ == "__main__":
    pool = Pool(2, modules=["json"])
    while pool.ready < 2:
        time.sleep(0.02)
    print(*[process.pid for process, _, _ in pool._ready], flush=True)
    time.sleep(600)
"""
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=HERE)
    assert owner.stdout is not None
    pids = owner.stdout.readline().split()
    assert len(pids) == 2
    owner.kill()
    owner.wait()
    owner.stdout.close()
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
