"""Processes that are ready before they are needed: interpreter, modules, the context of a device, and kernels.

    pool = tetris.warm.Pool(2, modules=["torch", "transformers"], device="cuda:0", kernels=["/models/bert"])
    job = pool.run("server:main", "/models/bert", environment={"TOKEN": token})
    job.result()

A process is used once, and another takes its place aside. So nothing of a job reaches the next one. All processes come
from one that has imported the modules and nothing else (a fork server of :mod:`multiprocessing`), which they share the
memory of. They have the rights of their owner: have a pool for each tenant, not one for several.

A module that is imported must not start threads or use a device, since forks would break both. torch, transformers and
safetensors do neither.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Self

from tetris._log import logger

if TYPE_CHECKING:
    import torch

__all__ = ["Job", "LoadedKernels", "Pool", "WarmError", "load_kernels"]

#: Longest wait for a process to become ready, and for one to end after the request, in seconds.
READY_S, END_S = 600.0, 5.0
#: Longest time in which a process loads the kernels of all models, in seconds; then others start without them.
KERNELS_S = 300.0


class WarmError(RuntimeError):
    """A process could not be made ready, or ended without a result."""


@dataclass(frozen=True)
class LoadedKernels:
    """Outcome of :func:`load_kernels`."""

    #: The kernels file; `None` if the model has none that can be used.
    path: str | None = None
    #: Number of calls that ran.
    ran: int = 0
    #: Number of calls that this version of torch does not have, or that a trace may not make.
    unknown: int = 0
    #: Number of calls whose arguments have more bytes than allowed.
    too_large: int = 0
    #: Number of calls that raised an error.
    failed: int = 0
    #: Number of calls that were left when the time was over, or that no process could try.
    late: int = 0
    #: Number of calls that ended the process that tried them or took too long there, and of those after the third.
    refused: int = 0

    @property
    def left_out(self) -> int:
        """Number of calls that did not run."""
        return self.unknown + self.too_large + self.failed + self.late + self.refused


class Job:
    """Work in a process that was ready.

    Attributes:
        pid: The process.
    """

    def __init__(self, process: Any, connection: Connection) -> None:
        self._process = process
        self._connection = connection
        self._answer: tuple[bool, Any] | None = None
        self.pid: int = process.pid

    def result(self, timeout: float | None = None) -> Any:
        """Wait until the work is done, and return what its function returned.

        Raises:
            TimeoutError: It is not done after `timeout` seconds.
            WarmError: The process has ended without an answer.
            Exception: The function raised it.
        """
        if self._answer is None:
            if not self._connection.poll(timeout):
                raise TimeoutError(f"process {self.pid} has no result after {timeout} s")
            try:
                self._answer = self._connection.recv()
            except (EOFError, ConnectionResetError) as error:
                self._process.join(END_S)
                raise WarmError(
                    f"process {self.pid} ended with status {self._process.exitcode} and no result"
                ) from error
            finally:
                self._end()
        succeeded, value = self._answer
        if succeeded:
            return value
        raise value

    def terminate(self) -> None:
        """End the process."""
        self._process.terminate()
        self._end()

    def _end(self) -> None:
        self._connection.close()
        self._process.join(END_S)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()


class Pool:
    """Processes that are ready.

    Args:
        size: How many are ready at a time.
        modules: Modules that are imported before the processes start. The first pool of a process decides them.
        device: ``"cuda:0"`` and the like: processes have its context.
        kernels: Models whose kernels each process loads on the device, as of :func:`load_kernels`, before it calls
            `prepare`: files, directories, or kernels files. It needs `device`. A model without a kernels file that can
            be used is skipped, and logged. After a process that ends meanwhile, or takes 300 s, the next
            ones load no kernels, and become ready without them.
        prepare: ``"module:function"``, which each process calls before it is ready.
        memory_bytes: Most private memory of all ready processes together, in bytes. With less, fewer are ready, and at
            least one.

    Raises:
        ValueError: An argument is wrong.
    """

    def __init__(
        self,
        size: int,
        *,
        modules: Sequence[str] = ("torch",),
        device: str | None = None,
        kernels: Sequence[str | os.PathLike[str]] = (),
        prepare: str | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        if size < 1:
            raise ValueError(f"size: expected at least 1, found {size}")
        if prepare is not None:
            _parts(prepare)
        if isinstance(kernels, (str, os.PathLike)):
            raise ValueError(f"kernels: expected a list of models, found {os.fspath(kernels)!r}")
        if kernels and device is None:
            raise ValueError('kernels: expected a device to load them on, such as device="cuda:0", found none')
        self._size = size
        self._device, self._prepare = device, prepare
        #: Models of which processes load kernels; none after loading them has ended one.
        self._kernels = [os.path.abspath(os.fspath(path)) for path in kernels]
        self._memory_bytes = memory_bytes
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(modules))
        self._changed = threading.Condition()
        self._ready: deque[tuple[Any, Connection, int]] = deque()
        #: Processes that were asked for beyond those that are ready.
        self._awaited = 0
        self._failure: str | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._fill, name="tetris-warm", daemon=True)
        self._thread.start()

    @property
    def ready(self) -> int:
        """Number of ready processes."""
        with self._changed:
            return len(self._ready)

    @property
    def private_bytes(self) -> int:
        """Private memory of the ready processes, in bytes, as it was when they became ready."""
        with self._changed:
            return sum(nbytes for _, _, nbytes in self._ready)

    def wait(self) -> None:
        """Wait until a process is ready.

        Raises:
            WarmError: None becomes ready, or the pool is closed.
        """
        with self._changed:
            self._await_ready()

    def run(self, target: str, *arguments: Any, environment: Mapping[str, str] | None = None) -> Job:
        """Run a function in a ready process, or wait for one.

        Args:
            target: ``"module:function"``.
            arguments: Its arguments, which are pickled.
            environment: Variables that the process gets in addition to its owner's.

        Raises:
            WarmError: No process becomes ready, or the pool is closed.
            ValueError: The target is not of this form.
        """
        _parts(target)
        with self._changed:
            self._awaited += 1
            try:
                self._await_ready()
                process, connection, _ = self._ready.popleft()
            finally:
                self._awaited -= 1
            self._changed.notify_all()
        job = Job(process, connection)
        try:
            connection.send((target, arguments, dict(environment or {})))
        except (BrokenPipeError, ConnectionResetError):
            # It has ended since: the next one.
            job._end()
            return self.run(target, *arguments, environment=environment)
        return job

    def close(self) -> None:
        """End the processes that are ready. Jobs go on."""
        with self._changed:
            self._closed = True
            ready, self._ready = list(self._ready), deque()
            self._changed.notify_all()
        self._thread.join()
        for process, connection, _ in ready:
            Job(process, connection)._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _await_ready(self) -> None:
        """Wait for the first ready process, with the lock held. What failed before is tried again."""
        end = time.monotonic() + READY_S
        self._failure = None
        self._changed.notify_all()
        while not self._ready:
            if self._closed:
                raise WarmError("the pool is closed")
            if self._failure is not None:
                raise WarmError(f"no process becomes ready: {self._failure}")
            if not self._changed.wait(end - time.monotonic()):
                raise WarmError(f"no process became ready within {READY_S:.0f} s")

    def _wants(self) -> bool:
        if self._failure is not None:
            return False
        missing = self._size + self._awaited - len(self._ready)
        held = sum(nbytes for _, _, nbytes in self._ready)
        most = max((nbytes for _, _, nbytes in self._ready), default=0)
        has_room = self._memory_bytes is None or not self._ready or held + most <= self._memory_bytes
        return missing > 0 and (has_room or self._awaited > len(self._ready))

    def _fill(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._wants())
                if self._closed:
                    return
            made = self._start()
            with self._changed:
                if isinstance(made, str):
                    self._failure = made
                elif self._closed:
                    Job(made[0], made[1])._end()
                else:
                    self._ready.append(made)
                self._changed.notify_all()

    def _start(self) -> tuple[Any, Connection, int] | str:
        """A process that is ready with its private bytes, or the reason it is not."""
        started = self._start_with(self._kernels)
        if not isinstance(started, _KernelsFailed):
            return started
        logger.warning("processes of the pool become ready without kernels from now on: %s", started.reason)
        self._kernels = []
        started = self._start_with([])
        assert not isinstance(started, _KernelsFailed), "it loads none"
        return started

    def _start_with(self, kernels: Sequence[str]) -> tuple[Any, Connection, int] | str | _KernelsFailed:
        ours, theirs = self._context.Pipe()
        # A daemon: multiprocessing ends it with its owner.
        process = self._context.Process(target=_serve, args=(theirs, self._device, kernels, self._prepare), daemon=True)
        process.start()
        theirs.close()
        # The time at which kernels must be loaded, while they are.
        loaded_by: float | None = None
        try:
            while True:
                while not wait([ours, process.sentinel], 0.2):
                    if self._closed:
                        raise EOFError
                    if loaded_by is not None and time.monotonic() > loaded_by:
                        raise TimeoutError
                stage, said = ours.recv()
                if stage in ("ready", "failed"):
                    break
                loaded_by = time.monotonic() + KERNELS_S if stage == "kernels" else None
        except (EOFError, ConnectionResetError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                # It computes, and would not end by a signal that Python handles.
                process.kill()
            process.terminate()
            process.join()
            ours.close()
            if loaded_by is not None and not self._closed:
                late = isinstance(error, TimeoutError)
                return _KernelsFailed(
                    f"one took longer than {KERNELS_S:.0f} s" if late else f"one ended with status {process.exitcode}"
                )
            return f"it ended with status {process.exitcode}"
        if stage == "ready":
            return process, ours, said
        ours.close()
        process.join()
        return str(said) if loaded_by is None else _KernelsFailed(str(said))


@dataclass(frozen=True)
class _KernelsFailed:
    """A process that did not become ready because it loaded kernels."""

    reason: str


def load_kernels(
    path: str | os.PathLike[str], device: str | torch.device, *, limit_bytes: int = 1 << 30
) -> LoadedKernels:
    """Load the kernels of a model on a device, without its weights and its code.

    Each call that :func:`tetris.torch.record_kernels` recorded runs once, on tensors of the recorded sizes that are
    made up: zeros where they may be indexes, else ones. So the device has the kernels' code, and libraries such as
    cuBLAS their workspaces, before the model runs. Nothing of the results is kept, memory of the device is given back,
    and random numbers go on as before. Libraries choose some kernels by settings, such as TF32: set them before.

    A kernels file is read only if its owner is the model's owner, root or this process's user, and others cannot write
    to it. Only operators of inference in PyTorch's namespace ``aten`` are called, with arguments of the types that they
    have. Another process tries the calls first, with limits of time and memory, once for each trace, version of
    PyTorch and kind of device: the user's cache keeps the outcome. On a GPU that process has a context for the time of
    the trial, some hundred megabytes of its memory. This process makes the calls that ended well there, within 10 s
    each. After 120 s no further call begins. A file that is missing, broken, of another version, of other content than
    the model's, or of another type of device is passed over, and the log ``tetris`` has the reason.

    Args:
        path: The model's file or directory, or a kernels file.
        device: The device, such as ``"cuda:0"`` or ``"cpu"``.
        limit_bytes: Most bytes of the arguments of a call. Larger calls are left out, since with other sizes they might
            have other kernels. A call that takes more than four times as much for everything fails: PyTorch's memory on
            the device is limited meanwhile, or on the CPU the address space of the process that tries the call.

    Raises:
        RuntimeError: The device cannot be used, or not any more.
    """
    from tetris import _kernels_replay

    file, counts = _kernels_replay.load(path, device, limit_bytes)
    return LoadedKernels(
        file, counts["ran"], counts["unknown"], counts["too_large"], counts["failed"], counts["late"], counts["refused"]
    )


def _serve(connection: Connection, device: str | None, kernels: Sequence[str], prepare: str | None) -> None:
    """Life of a process: it becomes ready, waits for a job, does it, and ends."""
    try:
        if device is not None and device.startswith("cuda"):
            import torch

            torch.zeros(1, device=device)
            torch.cuda.synchronize(device)
        if kernels:
            connection.send(("kernels", None))
            for path in kernels:
                load_kernels(path, str(device))
            connection.send(("prepare", None))
        if prepare is not None:
            _function(prepare)()
    except Exception as error:
        connection.send(("failed", f"{type(error).__name__}: {error}"))
        return
    connection.send(("ready", _private_bytes()))
    try:
        target, arguments, environment = connection.recv()
    except EOFError:
        # The pool is closed, or its owner has ended.
        return
    os.environ.update(environment)
    try:
        answer = True, _function(target)(*arguments)
    except Exception as error:
        answer = False, error
    try:
        connection.send(answer)
    except (BrokenPipeError, ConnectionResetError):
        pass
    except Exception as error:
        # It cannot be pickled.
        connection.send((False, WarmError(f"{target} has a result that cannot be sent: {error}")))


def _function(name: str) -> Any:
    module, attribute = _parts(name)
    return getattr(importlib.import_module(module), attribute)


def _parts(name: str) -> tuple[str, str]:
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f'expected "module:function", found {name!r}')
    return module, attribute


def _private_bytes() -> int:
    """Private memory of this process, in bytes; 0 where the kernel does not tell."""
    try:
        with open("/proc/self/smaps_rollup") as file:
            return sum(int(line.split()[1]) << 10 for line in file if line.startswith("Private_"))
    except OSError:
        return 0
