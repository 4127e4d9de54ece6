"""What computes: one engine per library, all alike to the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tetris_instance.tensors import Signature, Tensors


@dataclass(frozen=True)
class ModelBytes:
    """Where the model's tensors are, in bytes."""

    #: In objects of the store, which other processes may use as well.
    shared: int
    #: In memory of this process.
    private: int


class TextEncoder(Protocol):
    """Makes a model's inputs of texts."""

    def encode(self, texts: list[str]) -> Tensors:
        """Return the inputs, one row per text. May be called in several threads."""


class Engine(Protocol):
    """A model that is loaded. All methods may be called in several threads at once."""

    @property
    def platform(self) -> str:
        """The protocol's name for the library and the format, such as ``"pytorch_safetensors"``."""

    @property
    def signature(self) -> Signature:
        """What the model takes and gives."""

    @property
    def text(self) -> TextEncoder | None:
        """What takes texts; `None` where the model takes none."""

    def memory(self) -> ModelBytes:
        """Return where the model's tensors are."""

    def enter_worker(self) -> None:
        """Prepare the calling thread for :meth:`run`."""

    def example(self, rows: int) -> Tensors:
        """Return inputs of so many rows, to warm up with."""

    def check(self, inputs: Tensors) -> None:
        """Look at the values of a request, whose names, datatypes and shapes are right.

        Raises:
            RequestError: The model cannot take them.
        """

    def run(self, inputs: Tensors) -> Tensors:
        """Compute the outputs.

        Raises:
            Exception: Whatever the library raises.
        """
