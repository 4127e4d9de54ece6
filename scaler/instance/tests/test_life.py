"""A server's life as the kernel and its clients see it: start, readiness, signals, the end."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from programs import Program
from serving import HANGS_S, Client, wait_until

#: A server with runs, and a load if requested, that each wait for a line on standard input.
GATED = """
    import sys
    from fakes import FakeEngine
    from tetris_instance import options
    from tetris_instance.server import Server

    def load(_):
        if "slow" in sys.argv:
            sys.stdin.readline()
        if "broken" in sys.argv:
            raise OSError("no such weights")
        return FakeEngine(before=lambda _: (print("running", flush=True), sys.stdin.readline()))

    given = [one for one in sys.argv[1:] if one not in ("slow", "broken")]
    chosen = options.parse(["--model-path", "/nowhere/fake", "--port", "0", *given], {})
    sys.exit(Server(chosen, load).run())
"""
WAITS = ["--batch", "4", "--batch-wait-millis", "60000"]
AT_ONCE = ["--batch-wait-millis", "0"]


def gated(*arguments: str) -> Program:
    return Program(list(arguments), program=GATED)


def wait_for_run(program: Program) -> None:
    wait_until(lambda: "running" in program.said(), "a run")


def accepts(client: Client) -> bool:
    try:
        client.ask("/v2/health/live")
    except OSError:
        return False
    return True


def test_it_is_live_while_it_loads_and_ready_when_it_is_warm() -> None:
    with gated("slow", *AT_ONCE) as program:
        client = program.client()
        assert (client.ask("/v2/health/live").status, client.ask("/v2/health/live").json()) == (200, {"live": True})
        assert (client.ask("/v2/health/ready").status, client.ask("/v2/health/ready").json()) == (503, {"ready": False})
        assert client.ask("/v2/models/fake/ready").json() == {"name": "fake", "ready": False}
        for answer in (client.ask("/v2/models/fake"), client.values([[1]])):
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert answer.json() == {"error": "the model is being loaded"}
        assert client.metric("tetris_instance_ready") == 0
        program.go_on()
        wait_until(lambda: client.ask("/v2/health/ready").status == 200, "readiness")
        assert client.metric("tetris_instance_ready") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_server_ends_with_status_0(number: signal.Signals) -> None:
    with gated() as program:
        program.ready_client()
        program.process.send_signal(number)
        assert program.wait() == 0, program.said()


def test_what_runs_and_what_waits_is_answered_before_the_end() -> None:
    with gated(*AT_ONCE) as program, ThreadPoolExecutor() as pool:
        client = program.ready_client()
        running = pool.submit(client.values, [[1, 2]])
        wait_for_run(program)
        waiting = pool.submit(client.values, [[3, 4]])
        wait_until(lambda: client.metric("tetris_instance_queue_rows") == 1, "the row to wait")
        program.terminate()
        wait_until(lambda: not accepts(client), "the end of new connections")
        program.go_on()
        program.go_on()
        assert running.result(HANGS_S).json()["outputs"][0]["data"] == [3]
        assert waiting.result(HANGS_S).json()["outputs"][0]["data"] == [7]
        assert program.wait() == 0, program.said()


def test_a_batch_that_waits_to_be_filled_is_run_at_once() -> None:
    with gated(*WAITS) as program, ThreadPoolExecutor() as pool:
        client = program.ready_client()
        waiting = pool.submit(client.values, [[3, 4]])
        wait_until(lambda: client.metric("tetris_instance_queue_rows") == 1, "the row to wait")
        program.terminate()
        program.go_on()
        assert waiting.result(HANGS_S).json()["outputs"][0]["data"] == [7]
        assert program.wait() == 0, program.said()


def test_after_the_deadline_it_ends_although_a_run_does_not() -> None:
    with gated("--stop-seconds", "1", *AT_ONCE) as program, ThreadPoolExecutor() as pool:
        client = program.ready_client()
        running = pool.submit(client.values, [[1, 2]])
        wait_for_run(program)
        program.terminate()
        assert program.wait() == 0, program.said()
        assert running.exception(HANGS_S) is not None or running.result().status >= 500


def test_a_second_signal_ends_it_at_once() -> None:
    with gated("--stop-seconds", "3600", *AT_ONCE) as program, ThreadPoolExecutor() as pool:
        client = program.ready_client()
        running = pool.submit(client.values, [[1, 2]])
        wait_for_run(program)
        program.terminate()
        wait_until(lambda: not accepts(client), "the end of new connections")
        program.terminate()
        assert program.wait() == 0, program.said()
        running.exception(HANGS_S)


def test_a_signal_during_the_load_ends_it() -> None:
    with gated("slow") as program:
        program.client()
        program.terminate()
        assert program.wait() == 0, program.said()


def test_a_model_that_cannot_be_loaded_is_status_1_and_says_why() -> None:
    with gated("broken") as program:
        assert program.wait() == 1
        assert "no such weights" in program.said()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--model-path", "/nowhere"], 1, "--model-path is /nowhere, which does not exist"),
        (["--model-path", "/nowhere", "--batch", "0"], 2, "--batch is '0'; expected an integer of 1 to 4096"),
        (["--model-path", "/nowhere", "--host", "256.0.0.1"], 2, "cannot listen on 256.0.0.1"),
        (["--model-path", "."], 1, "with 0 .onnx files; expected such a file"),
        (["--model-path", ".", "--engine", "torch"], 1, "the engine torch expects a folder with config.json"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: list[str], status: int, message: str, tmp_path: Path) -> None:
    arguments = [str(tmp_path) if argument == "." else argument for argument in arguments]
    with Program(["--port", "0", *arguments]) as program:
        assert program.wait() == status, program.said()
        assert message in program.said()
        assert "Traceback" not in program.said()


def test_a_port_that_is_taken_is_an_error() -> None:
    with gated() as first:
        client = first.ready_client()
        with gated("--port", str(client.port)) as second:
            assert second.wait() != 0
            assert "Address already in use" in second.said()


def test_a_warm_up_that_fails_is_status_1_and_says_why() -> None:
    program = """
        import sys
        from fakes import FakeEngine
        from tetris_instance import options
        from tetris_instance.server import Server

        class Cold(FakeEngine):
            def run(self, inputs):
                raise ValueError("too cold")

        chosen = options.parse(["--model-path", "/nowhere/fake", "--port", "0", "--concurrency", "2"], {})
        sys.exit(Server(chosen, lambda _: Cold()).run())
    """
    with Program([], program=program) as server:
        assert server.wait() == 1
        assert "tetris-instance: the warm-up failed: ValueError: too cold\n" in server.said()
