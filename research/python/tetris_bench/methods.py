"""The ways to get a model's weights into a process."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Method:
    """A loading method of the comparison."""

    name: str
    """Name on the command line and in every output."""
    description: str
    """Description in one line."""
    module: str
    """Module that a process imports before the clock starts."""
    install: str
    """Package that pip had to install for it, beside PyTorch."""
    own_file: bool = False
    """True if each process has a copy of the file of its own."""
    file: Literal["safetensors", "torch"] = "safetensors"
    """Format of the file that it reads."""
    uses_store: bool = False
    """True if it loads through the tensor store."""
    helper: Literal["", "shared-memory", "vineyard"] = ""
    """Another process that must hold the weights before."""
    private: bool = False
    """True if the weights end up in memory of the process's own."""
    compared: bool = False
    """True if its inference is timed side by side: one method for each kind of memory."""


_SAFETENSORS = "safetensors"

METHODS: tuple[Method, ...] = (
    Method(
        "clone",
        "safetensors.torch.load_file, then every tensor cloned: private tensors",
        "safetensors.torch",
        _SAFETENSORS,
        private=True,
        compared=True,
    ),
    Method(
        "pread",
        'safetensors.torch.load_file(backend="pread")',
        "safetensors.torch",
        _SAFETENSORS,
        private=True,
    ),
    Method(
        "safetensors",
        "safetensors.torch.load_file, all processes map the same file",
        "safetensors.torch",
        _SAFETENSORS,
        compared=True,
    ),
    Method(
        "safetensors-own-file",
        "safetensors.torch.load_file, each process maps its own download of the file",
        "safetensors.torch",
        _SAFETENSORS,
        own_file=True,
        compared=True,
    ),
    Method("torch-mmap", "torch.load(mmap=True), all processes map the same file", "torch", "", file="torch"),
    Method(
        "shared-memory",
        "torch.multiprocessing: one process loads and calls share_memory_(), the others receive the tensors",
        "torch.multiprocessing",
        "",
        helper="shared-memory",
        compared=True,
    ),
    Method(
        "runai-streamer",
        "runai_model_streamer.SafetensorsStreamer, tensors kept by the caller",
        "runai_model_streamer",
        "runai-model-streamer",
        private=True,
    ),
    Method(
        "vineyard",
        "vineyardd holds the file as one blob, processes map it",
        "vineyard",
        "vineyard, setuptools<81 (it imports pkg_resources)",
        helper="vineyard",
    ),
    Method(
        "tetris",
        "tetris.torch.load_file, all processes open the same file: known after the first",
        "tetris.torch",
        "tetris-store",
        uses_store=True,
        compared=True,
    ),
    Method(
        "tetris-read-only",
        'tetris.torch.load_file(mode="read_only"), the same file',
        "tetris.torch",
        "tetris-store",
        uses_store=True,
    ),
    Method(
        "tetris-own-file",
        "tetris.torch.load_file, each process its own download of the file, hashed once by each",
        "tetris.torch",
        "tetris-store",
        own_file=True,
        uses_store=True,
    ),
)

BY_NAME: dict[str, Method] = {method.name: method for method in METHODS}
