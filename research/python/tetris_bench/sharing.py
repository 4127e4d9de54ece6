"""The process that holds the weights for others: torch.multiprocessing, vineyard."""

import multiprocessing
import os
import resource
import threading
import time
from multiprocessing.connection import Listener
from typing import Any


def share(file: str, socket: str, key: str) -> int:
    """Loads a file into shared memory and serves its tensors to every client; returns their bytes.

    What goes over the connection are handles. That is also what `torch.multiprocessing.Queue` and the arguments of a
    spawned process do; here the receivers are processes like all others of the benchmark.
    """
    import safetensors.torch
    import torch.multiprocessing  # noqa: F401  (teaches pickle how to send tensors)

    # One descriptor per tensor is the default way of sharing.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    tensors = {name: tensor.share_memory_() for name, tensor in safetensors.torch.load_file(file).items()}
    multiprocessing.current_process().authkey = bytes.fromhex(key)
    listener = Listener(socket, authkey=bytes.fromhex(key))

    def serve() -> None:
        while True:
            with listener.accept() as connection:
                connection.send(tensors)

    threading.Thread(target=serve, daemon=True).start()
    return sum(tensor.nbytes for tensor in tensors.values())


def put(file: str, socket: str, deadline_s: float, kept: list[Any]) -> int:
    """Puts a file into a vineyard server as one blob; returns the number of the object."""
    import vineyard

    client = _connect(vineyard, socket, deadline_s)
    kept.append(client)
    size = os.path.getsize(file)
    blob = client.create_blob(size)
    with open(file, "rb") as source:
        source.readinto(memoryview(blob).cast("B"))
    return int(blob.seal(client).id)


def _connect(vineyard: Any, socket: str, deadline_s: float) -> Any:
    end = time.monotonic() + deadline_s
    while True:
        try:
            return vineyard.connect(socket)
        except Exception:
            # The server needs a moment to listen.
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
