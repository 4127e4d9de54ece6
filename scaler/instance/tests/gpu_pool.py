"""Executors, the gateway, and GPU mirrors over simulated devices, as processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Self

import pytest
from programs import Program
from serving import Client, wait_until

MIB = 1 << 20


def program(variable: str, what: str) -> str:
    """Return the path of a program that a variable names; skip the test without it."""
    found = os.environ.get(variable)
    if not found:
        pytest.skip(f"needs {what}: name it in {variable}, as tests/python does")
    return found


class Mirror:
    """A mirror with one simulated device over a store."""

    def __init__(self, store: Path, socket: Path, device_bytes: int) -> None:
        path = program("TETRIS_SIMULATED_MIRROR", "the example simulated of tetris-gpu-server")
        self._command = [path, str(store), str(socket), str(device_bytes)]
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "serving\n"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def restart(self) -> None:
        """Kill it, and start another, which knows of nothing."""
        self.kill()
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def executor(repository: Path, socket: Path, *arguments: str, port: int = 0) -> Program:
    """Start the command as an executor of a simulated device."""
    given = ["--model-repository", str(repository), "--device", "simulated", "--cpus", "1"]
    return Program(
        [*given, "--port", str(port), "--load-timeout", "20", *arguments],
        TETRIS_GPU_SOCKET=str(socket),
        TETRIS_MIN_SHARED_BYTES="0",
    )


def _addresses(ports: list[int]) -> str:
    return ", ".join(f'"127.0.0.1:{port}"' for port in ports)


class Gateway:
    """The command ``tetris-gateway`` before executors."""

    def __init__(
        self,
        folder: Path,
        ports: list[int],
        functions: list[str],
        policy: str = "sharing",
        orders: tuple[list[int], Path] | None = None,
        wait: str = "60s",
    ) -> None:
        text = f'[gpu_pool.main]\nexecutors = [{_addresses(ports)}]\npoll = "50ms"\n'
        if orders is not None:
            text += f'orders = [{_addresses(orders[0])}]\ntoken_file = "{orders[1]}"\n'
        text += f'[gpu_pool.main.policy]\nname = "{policy}"\n'
        for name in functions:
            text += (
                f'[gpu_pool.main.function.{name}]\nslo = "60s"\nlatency = "10ms"\nwait = "{wait}"\nidempotent = true\n'
            )
        path = folder / "gateway.toml"
        path.write_text(text)
        command = program("TETRIS_GATEWAY", "the program tetris-gateway")
        arguments = ["run", "--config", str(path), "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
        self._process = subprocess.Popen([command, *arguments], stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = ""
        for line in self._process.stderr:
            said += line
            if "serving" in line:
                break
        else:
            raise AssertionError(f"it ended: {said}")
        ports_said = dict(part.split("=", 1) for part in said.split() if "=127.0.0.1:" in part)
        self.client = Client(int(ports_said["clients"].rpartition(":")[2]))
        self._own = Client(int(ports_said["metrics"].rpartition(":")[2]))

    def metric(self, sample: str) -> float:
        """Return the value of a sample of its metrics."""
        return self._own.metric(sample)

    def wait_for_executors(self, count: int) -> None:
        sample = 'tetris_gateway_gpu_executors{pool="main",available="yes"}'
        wait_until(lambda: self.metric(sample) == count, f"{count} executors")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
