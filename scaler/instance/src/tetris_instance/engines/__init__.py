"""Engines: one per library, with the same interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tetris_instance.tensors import Signature, Tensors


@dataclass(frozen=True)
class ModelBytes:
    """Size of the model's tensors by location, in bytes."""

    #: In objects of the store, shared with other processes.
    shared: int
    #: In memory of this process.
    private: int


class TextEncoder(Protocol):
    """Encodes texts as inputs of a model."""

    def encode(self, texts: list[str]) -> Tensors:
        """Return the inputs, one row per text. Thread-safe."""


class Engine(Protocol):
    """A loaded model. All methods are thread-safe."""

    @property
    def platform(self) -> str:
        """The protocol's name for library and format, such as ``"pytorch_safetensors"``."""

    @property
    def signature(self) -> Signature:
        """Inputs and outputs of the model."""

    @property
    def text(self) -> TextEncoder | None:
        """Encoder of texts; `None` if the model takes no texts."""

    def memory(self) -> ModelBytes:
        """Return the sizes of the model's tensors."""

    def enter_worker(self) -> None:
        """Prepare the calling thread for :meth:`run`."""

    def example(self, rows: int) -> Tensors:
        """Return inputs of `rows` rows for the warm-up."""

    def check(self, inputs: Tensors) -> None:
        """Check the values of a request. Names, datatypes and shapes have been checked.

        Raises:
            RequestError: The model cannot take the values.
        """

    def run(self, inputs: Tensors) -> Tensors:
        """Compute the outputs.

        Raises:
            Exception: Any exception of the library.
        """
