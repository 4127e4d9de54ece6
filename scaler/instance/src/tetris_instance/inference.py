"""Inference of one request in the event loop."""

from __future__ import annotations

import asyncio
import contextlib

import numpy as np

from tetris_instance import batch
from tetris_instance.batch import Item, Outcome
from tetris_instance.engines import Engine
from tetris_instance.errors import RequestError
from tetris_instance.queue import BatchQueue
from tetris_instance.request import TEXT
from tetris_instance.tensors import Tensors

#: Maximum size of one text, in bytes. Models take some hundred tokens, and tokenizing truncated
#: text takes time.
_TEXT_BYTES = 64 << 10


async def infer(engine: Engine, queue: BatchQueue, inputs: Tensors) -> Tensors:
    """Return the outputs for the inputs of one request.

    Splits a request of more rows than a batch. A cancelled request leaves the queue, unless a
    worker has it.

    Raises:
        RequestError: The model cannot take the inputs, the queue is full, or the run failed.
    """
    queue.check_rows(batch.rows_of(inputs, engine.signature))
    inputs = await checked(engine, inputs)
    items, futures = _items(engine, queue, inputs)
    queue.offer(items)
    try:
        parts = await asyncio.gather(*futures)
    except BaseException:
        # Cancelled, or one of several parts failed: drop the other parts.
        queue.discard(items)
        raise
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


async def checked(engine: Engine, inputs: Tensors) -> Tensors:
    """Return the inputs as the engine takes them: texts are encoded, and values checked.

    Raises:
        RequestError: The model cannot take the inputs.
    """
    if TEXT.name in inputs and engine.text is not None:
        # Outside of the event loop: tokenizers compute without the GIL.
        inputs = await asyncio.to_thread(engine.text.encode, _texts(inputs))
    engine.check(inputs)
    return inputs


def _items(engine: Engine, queue: BatchQueue, inputs: Tensors) -> tuple[list[Item], list[asyncio.Future[Tensors]]]:
    loop = asyncio.get_running_loop()
    arrived = queue.clock()
    items: list[Item] = []
    futures: list[asyncio.Future[Tensors]] = []
    for part in batch.chunks(inputs, engine.signature, queue.batch_rows):
        future: asyncio.Future[Tensors] = loop.create_future()

        def deliver(outcome: Outcome, future: asyncio.Future[Tensors] = future) -> None:
            # After the loop is closed, no client waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, future, outcome)

        rows = batch.rows_of(part, engine.signature)
        items.append(Item(part, rows, batch.key_of(part, engine.signature), arrived, deliver))
        futures.append(future)
    return items, futures


def _settle(future: asyncio.Future[Tensors], outcome: Outcome) -> None:
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _texts(inputs: Tensors) -> list[str]:
    """Return the texts of a request.

    Raises:
        RequestError: One is too long, or not UTF-8.
    """
    longest = max(map(len, inputs[TEXT.name]))
    if longest > _TEXT_BYTES:
        raise RequestError(f"`{TEXT.name}` has a value of {longest} bytes; expected at most {_TEXT_BYTES}")
    try:
        return [value.decode() for value in inputs[TEXT.name]]
    except UnicodeDecodeError:
        raise RequestError(f"`{TEXT.name}` has bytes that are not UTF-8") from None
