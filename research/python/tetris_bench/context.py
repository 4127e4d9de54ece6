"""Context of every measurement of one model."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import memory
from .methods import Method
from .place import Place
from .workers import Worker


@dataclass
class Model:
    """A model file, and what it takes to use it."""

    name: str
    file: Path
    file_bytes: int
    tensor_bytes: int
    tensors: int
    inference: str
    """Kind of the inference: `bert` or `matrices`."""
    torch_file: Path | None = None
    """The same tensors as `torch.save` writes them."""


class Progress:
    """One line on standard error, when that is a terminal."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def say(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


@dataclass
class Context:
    """One model, its files and its store."""

    model: Model
    workdir: Path
    store: Place | None
    vineyard_server: str
    deadline_s: float
    progress: Progress
    failures: dict[str, str] = field(default_factory=dict)
    """Methods that went wrong, and how; they are left out of what follows."""

    def start(self, method: Method, *, infers: bool = False) -> Worker:
        """Starts a process; it is ready later."""
        return Worker(
            method.name,
            kind=self.model.inference if infers else "",
            file=self.model.file,
            store=str(self.store.path) if method.uses_store and self.store else "",
            deadline_s=self.deadline_s,
        )

    def file_for(self, method: Method) -> Path:
        """The file that all processes of a method share."""
        if method.file == "torch":
            assert self.model.torch_file is not None
            return self.model.torch_file
        return self.model.file

    def back(self, method: Method, copies: int = 1) -> None:
        """Lets the machine back the memory that the next loads will take."""
        if method.private:
            memory.back(copies * self.model.tensor_bytes)

    def attempt(self, method: Method, measure: Callable[[], Any]) -> Any:
        """Runs a measurement; a failure is noted, and is the end of that method only."""
        if method.name in self.failures:
            return None
        try:
            return measure()
        except Exception as error:  # Whatever a competitor does wrong is its own failure, and is reported.
            self.failures[method.name] = str(error) or type(error).__name__
            return None
