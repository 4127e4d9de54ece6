"""Options of the command, from arguments and environment."""

from __future__ import annotations

import argparse
import ipaddress
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, get_args

from tetris_instance.cpus import available_cpus
from tetris_instance.engines.encoder import TASKS, Task
from tetris_instance.engines.onnx_session import Weights
from tetris_instance.errors import ConfigurationError, shown

ENGINES = ("auto", "torch", "onnxruntime")

_BATCH_MAX, _CONCURRENCY_MAX, _CPUS_MAX, _QUEUE_MAX = 4096, 1024, 4096.0, 1 << 20
_MIB = 1 << 20
#: Options that only executors have.
_OF_EXECUTORS = ("device", "node", "load_timeout", "orders_host", "orders_port", "orders_token_file")
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True)
class Options:
    """Options of the server. The README has a table of them."""

    model_path: Path
    #: Folder of the models that an executor serves; `None` for a server of one model.
    repository: Path | None
    #: Device of an executor.
    device: str
    #: Node of an executor's device.
    node: str
    #: Longest wait of a request for its weights, in seconds.
    load_timeout_s: float
    model_name: str
    model_version: str
    engine: str
    #: Task of a model folder; `None` for the one that its architecture has.
    task: Task | None
    onnx_weights: Weights
    dimensions: Mapping[str, int]
    batch: int
    concurrency: int
    cpus: float
    #: In seconds; `None` for the time of a full batch, see :mod:`tetris_instance.server`.
    batch_wait_s: float | None
    queue_rows: int
    host: str
    port: int
    #: Address of an executor's orders, if it is another one than that of requests, and the file with their token.
    orders_host: str
    orders_port: int | None
    orders_token_file: Path | None
    body_bytes: int
    stop_s: int
    log_level: str


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Parse the options.

    Raises:
        ConfigurationError: An option is invalid; the message names it.
        SystemExit: argparse refuses the arguments.
    """
    given = _parser().parse_args(arguments)
    if given.model_repository is not None:
        _check_executor(given)
    elif given.model_path is None:
        raise ConfigurationError("expected --model-path, or --model-repository for an executor")
    else:
        _check_one_model(given)
    given.model_path = given.model_path or given.model_repository
    name = given.model_name if given.model_name is not None else _name_of(given.model_path)
    if not name or "/" in name:
        raise ConfigurationError(f"--model-name is {shown(name)}; expected a name without `/`")
    choose = _Chooser(given, environment)
    batch = choose.integer("batch", 1, 1, _BATCH_MAX, "TETRIS_BATCH")
    concurrency = choose.integer("concurrency", 1, 1, _CONCURRENCY_MAX, "TETRIS_CONCURRENCY")
    wait = choose.number("batch_wait_millis", -1.0, 0.0, 60_000.0, "TETRIS_BATCH_WAIT_MILLIS")
    return Options(
        model_path=given.model_path,
        repository=given.model_repository,
        device=given.device or "cuda:0",
        node=given.node or socket.gethostname(),
        load_timeout_s=choose.number("load_timeout", 30.0, 0.001, 3600.0),
        model_name=name,
        model_version=given.model_version,
        engine=given.engine,
        task=given.task,
        onnx_weights=given.onnx_weights,
        dimensions=dict(given.dimension),
        batch=batch,
        concurrency=concurrency,
        cpus=choose.cpus(),
        batch_wait_s=None if wait < 0 else wait / 1000,
        queue_rows=choose.integer("queue", max(64, 8 * batch * concurrency), batch, _QUEUE_MAX),
        host=given.host,
        port=choose.integer("port", 8000, 0, 65535, "TETRIS_PORT"),
        orders_host=given.orders_host or given.host,
        orders_port=None if given.orders_port is None else choose.integer("orders_port", 0, 0, 65535),
        orders_token_file=given.orders_token_file,
        body_bytes=int(choose.number("max_body_mib", 8.0, 0.001, 1024.0) * _MIB),
        stop_s=choose.integer("stop_seconds", 20, 1, 3600),
        log_level=given.log_level,
    )


class _Chooser:
    """Takes an option from the arguments, the environment or the default, and checks it."""

    def __init__(self, given: argparse.Namespace, environment: Mapping[str, str]) -> None:
        self._given = given
        self._environment = environment

    def integer(self, name: str, default: int, least: int, most: int, variable: str | None = None) -> int:
        return self._choose(name, default, least, most, variable, int, "an integer")

    def number(self, name: str, default: float, least: float, most: float, variable: str | None = None) -> float:
        return self._choose(name, default, least, most, variable, float, "a number")

    def cpus(self) -> float:
        if self._given.cpus is None and self._environment.get("TETRIS_CPU_MILLIS"):
            return self.integer("cpu_millis", 0, 1, int(_CPUS_MAX * 1000), "TETRIS_CPU_MILLIS") / 1000
        return self.number("cpus", available_cpus(), 0.001, _CPUS_MAX)

    def _choose(
        self,
        name: str,
        default: _Number,
        least: _Number,
        most: _Number,
        variable: str | None,
        kind: Callable[[str], _Number],
        named: str,
    ) -> _Number:
        text, source = getattr(self._given, name, None), f"--{name.replace('_', '-')}"
        if text is None and variable is not None:
            text, source = self._environment.get(variable) or None, variable
        if text is None:
            return default
        try:
            value = kind(text)
        except ValueError:
            value = None
        # The comparison also refuses NaN.
        if value is None or not least <= value <= most:
            raise ConfigurationError(f"{source} is {shown(text)}; expected {named} of {least} to {most}")
        return value


def _check_executor(given: argparse.Namespace) -> None:
    """Refuse options that an executor does not have."""
    of_one_model = ("model_path", "model_name", "batch", "batch_wait_millis")
    wrong = [name for name in of_one_model if getattr(given, name) is not None]
    if wrong:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in wrong)
        raise ConfigurationError(f"{named}: not with --model-repository, whose models run one request at a time")
    if given.engine == "onnxruntime":
        raise ConfigurationError("--engine is onnxruntime; an executor expects torch")
    if (given.orders_port is None) != (given.orders_token_file is None):
        missing = "--orders-port" if given.orders_port is None else "--orders-token-file"
        raise ConfigurationError(f"{missing} is missing; expected it with the other of the two")
    if given.orders_host is not None and given.orders_port is None:
        raise ConfigurationError("--orders-host: only with --orders-port")
    if given.orders_port is None and not _is_loopback(given.host):
        raise ConfigurationError(
            f"--host is {shown(given.host)}, where strangers could give orders to load and unload models; expected "
            "--orders-port and --orders-token-file with it, or a loopback address"
        )
    if not given.model_repository.is_dir():
        raise ConfigurationError(f"--model-repository is {given.model_repository}, expected a folder")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_one_model(given: argparse.Namespace) -> None:
    """Refuse options that only an executor has."""
    wrong = [name for name in _OF_EXECUTORS if getattr(given, name) is not None]
    if wrong:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in wrong)
        raise ConfigurationError(f"{named}: only with --model-repository")


def _name_of(path: Path) -> str:
    resolved = path.resolve()
    return resolved.stem if resolved.is_file() else resolved.name


def _dimension(text: str) -> tuple[str, int]:
    name, _, size = text.rpartition("=")
    if not name or not size.isdigit() or not 0 < int(size) <= 1 << 20:
        raise argparse.ArgumentTypeError(f"{text!r}; expected NAME=SIZE")
    return name, int(size)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tetris-instance",
        description="Serve one model, or as an executor many on one GPU, over the Open Inference Protocol v2 (HTTP).",
    )
    add = parser.add_argument
    add("--model-path", type=Path, help="folder with config.json and safetensors, or an .onnx file")
    add("--model-repository", metavar="DIR", type=Path, help="executor: folder with a folder for each model")
    add("--device", help="executor: device of the node's GPU mirror (default: cuda:0)")
    add("--node", help="executor: name of the node (default: the host's)")
    add("--load-timeout", metavar="S", help="executor: longest wait of a request for its weights (default: 30)")
    add("--model-name", help="name in the protocol (default: name of the folder or file)")
    add("--model-version", default="1", help="version in the protocol (default: 1)")
    add("--engine", choices=ENGINES, default="auto", help="engine (default: by the model's files)")
    add("--task", choices=TASKS, help="task of a model folder (default: by its architecture)")
    add("--onnx-weights", choices=get_args(Weights), default="prepacked", help="sharing mode of ONNX Runtime sessions")
    add(
        "--dimension", metavar="NAME=SIZE", type=_dimension, action="append", default=[],
        help="variable size of an ONNX graph in the warm-up; repeatable (default: 16)",
    )  # fmt: skip
    add("--batch", metavar="B", help="maximum number of rows of a run (TETRIS_BATCH; default: 1)")
    add("--concurrency", metavar="P", help="number of concurrent runs (TETRIS_CONCURRENCY; default: 1)")
    add("--cpus", metavar="C", help="number of CPUs (TETRIS_CPU_MILLIS / 1000; default: affinity and cgroup)")
    add(
        "--batch-wait-millis", metavar="MS",
        help="longest wait of a row for others (TETRIS_BATCH_WAIT_MILLIS; default: time of a full batch, at most 10)",
    )  # fmt: skip
    add("--queue", metavar="ROWS", help="maximum number of queued rows (default: 8 B P, at least 64)")
    add("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    add("--port", help="port; 0 for any (TETRIS_PORT; default: 8000)")
    add("--orders-host", metavar="HOST", help="executor: address to take orders on (default: that of --host)")
    add("--orders-port", metavar="PORT", help="executor: port to take orders on, and nothing else; 0 for any")
    add("--orders-token-file", metavar="FILE", type=Path, help="executor: file with the bearer token of orders")
    add("--max-body-mib", metavar="MIB", help="maximum size of a request (default: 8)")
    add("--stop-seconds", metavar="S", help="time to finish requests after SIGTERM (default: 20)")
    add("--log-level", choices=("debug", "info", "warning", "error"), default="info", help="log level")
    return parser
