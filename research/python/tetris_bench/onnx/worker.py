"""A process with a session: `python -m tetris_bench.onnx.worker TASK`, which is JSON."""

import ctypes
import hashlib
import json
import sys
import time
from typing import Any

import numpy as np
import onnxruntime
import tetris.onnxruntime

from .methods import SHARED, UNPACKED
from .models import SEED


def main() -> None:
    """Answers requests from standard input until it ends."""
    task = json.loads(sys.argv[1])
    tetris.agent()
    session: Any = None
    print("{}", flush=True)
    for line in sys.stdin:
        if line.strip() == "session":
            start = time.perf_counter()
            session = _session(task)
            elapsed = time.perf_counter() - start
            sharing = getattr(session, "sharing", None)
            reply: dict[str, Any] = {"session_s": elapsed, "weights": sharing and sharing.weights}
        elif line.strip() == "run":
            feeds = _feeds(session, task["dimensions"])
            start = time.perf_counter()
            session.run(None, feeds)
            first = time.perf_counter() - start
            outputs = session.run(None, feeds)
            digest = hashlib.sha256(b"".join(np.ascontiguousarray(output).tobytes() for output in outputs))
            reply = {"first_s": first, "outputs": digest.hexdigest()}
        else:
            reply = _take_turns(json.loads(line))
        print(json.dumps(reply), flush=True)


def _take_turns(tasks: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Seconds of runs, by method: one run of each in turn, forwards and backwards."""
    sessions = {task["method"]: _session(task) for task in tasks}
    feeds = _feeds(sessions[tasks[0]["method"]], tasks[0]["dimensions"])
    times: dict[str, list[float]] = {name: [] for name in sessions}
    for session in sessions.values():
        session.run(None, feeds)
    for turn in range(tasks[0]["runs"]):
        for name in list(sessions)[:: -1 if turn % 2 else 1]:
            start = time.perf_counter()
            sessions[name].run(None, feeds)
            times[name].append(time.perf_counter() - start)
    return times


def _session(task: dict[str, Any]) -> Any:
    method = task["method"]
    shared = method in SHARED
    options = tetris.onnxruntime.SessionOptions() if shared else onnxruntime.SessionOptions()
    options.intra_op_num_threads = task["threads"]
    if method in UNPACKED and not shared:
        options.add_session_config_entry("session.disable_prepacking", "1")
    if shared:
        return tetris.onnxruntime.InferenceSession(
            task["model"], options, weights=method, agent=tetris.Agent(task["store"])
        )
    session = onnxruntime.InferenceSession(task["model"], options)
    if method == "plain-trimmed":
        ctypes.CDLL(None).malloc_trim(0)
    return session


def _feeds(session: Any, dimensions: dict[str, str]) -> dict[str, Any]:
    """Inputs of the model's types and shapes; integers are 0 or 1, which every vocabulary and mask has."""
    rng = np.random.default_rng(SEED)
    feeds = {}
    for argument in session.get_inputs():
        shape = [dim if isinstance(dim, int) else int(dimensions.get(dim, 1)) for dim in argument.shape]
        if "float" in argument.type or "double" in argument.type:
            dtype = {"tensor(float16)": np.float16, "tensor(double)": np.float64}.get(argument.type, np.float32)
            feeds[argument.name] = rng.standard_normal(shape).astype(dtype)
        else:
            dtype = np.dtype(argument.type.removeprefix("tensor(").removesuffix(")"))
            feeds[argument.name] = rng.integers(0, 2, shape).astype(dtype)
    return feeds


if __name__ == "__main__":
    main()
