"""The native half of the package: the agent, and memory that is shared where it can be."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, final, overload

from typing_extensions import Buffer

from tetris._types import Counters, GpuDevice, GpuStatus, GpuUsage, Report

_T = TypeVar("_T")
_Path = str | os.PathLike[str]
_Mode = Literal["copy_on_write", "read_only"]
_Progress = Callable[[int, int], object]

#: The version of the package.
VERSION: str

@final
class Agent:
    """Loads models through a tensor store, or without one. Most programs use :func:`tetris.agent`."""

    def __new__(cls, store: _Path | None = None, *, min_shared_bytes: int | None = None) -> Agent:
        """Return an agent of the store in the directory `store`; without a path, one of no store.

        Files smaller than `min_shared_bytes` are not shared; the default is as of :func:`tetris.agent`.

        Raises:
            StoreError: There is no usable store; the subclass has the reason.
        """

    @staticmethod
    def from_env() -> Agent:
        """Return an agent of the store that ``TETRIS_STORE`` names, or the default; without one if there is none."""

    @property
    def store(self) -> str | None:
        """The store's directory; `None` without a store."""

    @property
    def objects_dir(self) -> str | None:
        """The directory of the store's objects; `None` without a store."""

    @property
    def unavailable(self) -> str | None:
        """The reason that the configured store cannot be used, if it cannot."""

    @property
    def unavailable_cause(self) -> str | None:
        """The code of that reason's cause, such as "no-store"."""

    @property
    def unavailable_remedy(self) -> str | None:
        """The next step that makes the configured store usable, with a command to run."""

    @property
    def store_choice(self) -> str | None:
        """The reason that this store is used and no other, if the agent chose it."""

    @property
    def counters(self) -> Counters:
        """Counts since this agent was made."""

    def load(
        self,
        path: _Path,
        *,
        mode: _Mode = "read_only",
        prefault: bool = False,
        threads: int | None = None,
        wait: float | None = None,
        progress: _Progress | None = None,
        min_shared_bytes: int | None = None,
    ) -> Model:
        """Load a safetensors file, or a directory as Hugging Face lays it out; see :func:`tetris.load`.

        Raises:
            LoadError: The model's files are missing or invalid. Never because of the store.
        """

    def load_unless_new(self, path: _Path) -> Model | None:
        """Load a safetensors file for copies on write, except one that is too new to be shared, but not small.

        Such a file, for which the result is `None`, is loaded faster by safetensors itself.

        Raises:
            LoadError: The file is missing or invalid.
        """

    def open_file(self, path: _Path) -> File:
        """Open a safetensors file and read its header.

        Raises:
            LoadError: The file is missing or invalid.
        """

    def share_file(
        self,
        path: _Path,
        *,
        threads: int | None = None,
        wait: float | None = None,
        progress: _Progress | None = None,
    ) -> SharedFile:
        """Keep a whole file of any format in the store, for programs that map it by path.

        Raises:
            LoadError: The file is missing.
        """

    def file_id(self, path: _Path) -> str:
        """Return the BLAKE3-256 of a whole file, as 64 hexadecimal digits. A store remembers it by the file's stat.

        Raises:
            LoadError: The file is missing.
        """

    def publish(self, data: Buffer, *, mode: _Mode = "read_only") -> Memory:
        """Put C-contiguous bytes into the store as one object, or find it there. Other threads run meanwhile.

        Raises:
            ShareError: The store cannot take them, or there is none.
        """

    def derive(
        self,
        source_id: str,
        transform: str,
        version: int,
        make: Callable[[], Buffer],
        *,
        mode: _Mode = "read_only",
    ) -> Memory:
        """Return what `transform` in its `version` makes of the bytes `source_id`: from the store, or by `make`.

        `transform`, of at most 4,096 bytes, names the operation with its parameters. `make` runs at most once. What
        the store cannot take is returned in private memory, and `private_reason` has the reason.

        Raises:
            ValueError: `source_id` is not 64 hexadecimal digits, or the name is too long.
            Exception: Whatever `make` raises.
        """

    def layout(
        self,
        transform: str,
        version: int,
        sources: Mapping[str, str],
        conditions: Mapping[str, str],
        build: Callable[[], tuple[list[_Part], dict[str, bytes]]],
        *,
        mode: _Mode = "read_only",
        wait: float | None = None,
    ) -> Layout:
        """Return the layout of a key: attached, or what `build` returns, recorded for others.

        `sources` are ids by name. `build` runs at most once. A layout that the store cannot hold as a whole is
        returned as it was built, and `private_reason` has the reason.

        Raises:
            ValueError: A source is not 64 hexadecimal digits, or the key cannot be recorded.
            Exception: Whatever `build` raises.
        """

    def attach(self, object: str, *, mode: _Mode = "read_only") -> Memory | None:
        """Return the object with this file name; `None` if it is not in the store.

        Raises:
            StoreError: The object cannot be mapped.
        """

#: Name, element type, shape, strides in elements, memory, offset in bytes, and the index of the earlier tensor that it
#: is an alias of.
_Part = tuple[str, str, list[int], list[int], Memory | None, int, int | None]

@final
class Layout:
    """Tensors that one process of the node made, and the references to their objects."""

    @property
    def tensors(self) -> list[_Part]:
        """The tensors, in the order of the build."""

    @property
    def attributes(self) -> dict[str, bytes]:
        """The attributes by key."""

    @property
    def origin(self) -> Literal["shared", "new", "private"]:
        """ "shared" if it was found, "new" if this process made it, "private" if others cannot find it."""

    @property
    def private_reason(self) -> str | None:
        """The reason that others cannot find it, if they cannot."""

@final
class File:
    """An open safetensors file. It stays the file that was opened, whatever its path names meanwhile."""

    @property
    def path(self) -> str: ...
    def fileno(self) -> int:
        """Return the descriptor of the open file, which stays this object's own."""

    def tensors(self) -> dict[str, tuple[str, list[int]]]:
        """Return element type and shape of each tensor by name, in the order of the file."""

    def metadata(self) -> dict[str, str] | None:
        """Return the strings under ``__metadata__``; `None` if there are none."""

    def content_id(self) -> str | None:
        """Return the id of the file's tensors, names, types and shapes, as 64 hexadecimal digits.

        Reads no tensor. `None` for a file that the store does not know yet, because no process has loaded it.
        """

    def leave(self) -> str | None:
        """Return why a file that is too new to be shared, and not small, is for another to load; `None` otherwise.

        Such a file counts as unshared.
        """

    def load(
        self,
        *,
        mode: _Mode = "read_only",
        prefault: bool = False,
        threads: int | None = None,
        wait: float | None = None,
        progress: _Progress | None = None,
    ) -> Model:
        """Load the tensors.

        Raises:
            LoadError: The file has changed into something that is not valid.
        """

@final
class Model:
    """Tensors by name, in the order of the files. Each keeps its own object in the store, and outlives the model."""

    @property
    def metadata(self) -> dict[str, str]:
        """The strings under ``__metadata__`` of the files."""

    @property
    def report(self) -> Report:
        """What the load did."""

    def __getitem__(self, name: str, /) -> Tensor: ...
    @overload
    def get(self, name: str) -> Tensor | None: ...
    @overload
    def get(self, name: str, default: _T) -> Tensor | _T: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def keys(self) -> list[str]: ...
    def values(self) -> list[Tensor]: ...
    def items(self) -> list[tuple[str, Tensor]]: ...

@final
class Tensor:
    """A tensor without a framework: C-contiguous, little-endian, at an address that is a multiple of 64.

    It has the buffer protocol, typed and with its shape where the protocol has a letter for the element type, else as
    bytes; and DLPack. Both say whether it is read-only. Consumers that take no notice, torch among them, write to pages
    of this process's own.
    """

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str:
        """The element type as safetensors spells it, such as ``"BF16"``."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def id(self) -> str | None:
        """BLAKE3-256 of the bytes as they were loaded; `None` if they were not hashed because there is no store."""

    @property
    def origin(self) -> Literal["shared", "new", "private", "empty"]:
        """Where the bytes are: in an object that was there, in one that this load published, or in private memory."""

    @property
    def readonly(self) -> bool: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule over the memory (array API standard).

        Raises:
            BufferError: The consumer asks for another device, or DLPack has no such element type.
        """

    def __dlpack_device__(self) -> tuple[int, int]: ...

@final
class Memory:
    """Bytes in the store, or in private memory. It has the buffer protocol, and keeps its object in the store."""

    @property
    def nbytes(self) -> int: ...
    @property
    def id(self) -> str | None:
        """BLAKE3-256 of the bytes; `None` if they are private."""

    @property
    def object(self) -> str | None:
        """The file name of the object; `None` if the bytes are private."""

    @property
    def path(self) -> str | None:
        """The path of the object, valid while this lives; `None` if the bytes are private."""

    @property
    def origin(self) -> Literal["shared", "new", "private"]: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def private_reason(self) -> str | None:
        """Why a derived object is private, if it is."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class SharedFile:
    """A file that is kept whole in the store while this lives."""

    @property
    def path(self) -> str:
        """Where it can be mapped: in the store, or the original where the store could not take it."""

    @property
    def is_shared(self) -> bool: ...
    @property
    def id(self) -> str | None: ...
    @property
    def report(self) -> Report: ...
    def __fspath__(self) -> str: ...

@final
class DeviceRegistry:
    """The models that this process has in device memory. Most programs use :mod:`tetris.gpu`."""

    def __new__(cls) -> DeviceRegistry: ...
    def load(
        self,
        agent: Agent,
        path: _Path,
        device: str,
        *,
        order: Sequence[str] | None = None,
        wait: float | None = None,
        timeout: float | None = None,
        keep: bool = False,
    ) -> DeviceModel:
        """Map a model in the device memory that the node's mirror holds; see :func:`tetris.gpu.load`.

        Raises:
            ValueError: `device` is none that there can be, or a time is negative.
            LoadError: The model's files are missing or invalid.
            GpuUnavailableError: The mirror does not give the memory.
        """

    def load_memories(
        self,
        agent: Agent,
        memories: Sequence[Memory],
        device: str,
        *,
        wait: float | None = None,
        timeout: float | None = None,
        keep: bool = False,
    ) -> DeviceModel:
        """Map memory of the store in device memory; see :func:`tetris.gpu.load_memories`.

        Raises:
            ValueError: `device` is none that there can be, or a time is negative.
            GpuUnavailableError: The mirror does not give the memory.
        """

    def release(self) -> int:
        """Give unused kept models back; return the bytes of device memory that are no longer mapped."""

    def devices(self, agent: Agent, timeout: float | None = None) -> list[GpuDevice]:
        """Return the mirror's devices, with their names in this process if it has initialized CUDA.

        Raises:
            GpuUnavailableError: There is no mirror.
        """

    def prefetch(
        self,
        agent: Agent,
        path: _Path,
        device: int | None = None,
        *,
        order: Sequence[str] | None = None,
        wait: float | None = None,
        timeout: float | None = None,
    ) -> Prefetch:
        """Have the mirror bring a model to a device and hold it there; see :func:`tetris.gpu.prefetch`.

        Raises:
            ValueError: A time is negative.
            GpuUnavailableError: There is no mirror, or no such device.
        """

    def describe(self, agent: Agent, device: int | None = None, timeout: float | None = None) -> GpuStatus:
        """Return the state of the mirror's device of this number, or of its first one; see :func:`tetris.gpu.status`.

        Raises:
            GpuUnavailableError: There is no mirror, or no such device.
        """

    def usage(self, agent: Agent, timeout: float | None = None) -> GpuUsage:
        """Return what the mirror is doing.

        Raises:
            GpuUnavailableError: There is no mirror.
        """

@final
class Prefetch:
    """A model that the mirror has on a device, or gets there, and holds until this is closed or gone.

    It is a context manager, which closes it. A child of a fork does not end its parent's hold.
    """

    @property
    def state(self) -> Literal["loading", "waiting", "resident", "failed", "closed"]:
        """ "loading" on its way, "waiting" for room, "resident", "failed" if it is not there any more or never was."""

    @property
    def model(self) -> str | None:
        """Identity of the content, 64 hexadecimal digits; `None` until the files have been recognized.

        It is that of the model's objects in the store, in any order, and the same in every process and node.
        """

    @property
    def nbytes(self) -> int:
        """Bytes of the model's objects, each once; 0 until the files have been recognized."""

    @property
    def bytes_left(self) -> int:
        """Bytes that are not on the device."""

    @property
    def reason(self) -> str | None:
        """The reason that it failed; `None` if it did not."""

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the model is resident.

        Raises:
            TimeoutError: It is still on its way after `timeout` seconds.
            LoadError: The model's files are missing or invalid.
            GpuUnavailableError: There is no room, the mirror has ended, or this was closed.
        """

    def close(self) -> None:
        """Let go of the model: the mirror may evict it."""

    def __enter__(self) -> Prefetch: ...
    def __exit__(self, kind: object, error: object, traceback: object, /) -> None: ...

@final
class DeviceModel:
    """Tensors in device memory by name, in the order of the files.

    The memory stays mapped, and held at the mirror, as long as this, a tensor of it, or anything that a framework made
    of one lives.
    """

    @property
    def device(self) -> str:
        """Where it is: ``"cuda:0"``, or ``"simulated"``."""

    @property
    def mapped_bytes(self) -> int:
        """Device memory that is mapped for the model. It is shared, and more may lie in it."""

    @property
    def nbytes(self) -> int:
        """Bytes of the model's objects, each once."""

    @property
    def resident_bytes(self) -> int:
        """How many of :attr:`nbytes` have arrived."""

    @property
    def metadata(self) -> dict[str, str]:
        """The strings under ``__metadata__`` of the files."""

    @property
    def report(self) -> Report:
        """What the load into the store did."""

    def wait(self, name: str | None = None, timeout: float | None = None) -> None:
        """Wait until a tensor, or without a name the whole model, has arrived. Other threads run meanwhile.

        Raises:
            KeyError: There is no such tensor.
            TimeoutError: It has not arrived within `timeout` seconds.
            GpuUnavailableError: It will not arrive.
        """

    def is_ready(self, name: str | None = None) -> bool:
        """Return whether a tensor, or without a name the whole model, has arrived. Does not wait.

        Raises:
            KeyError: There is no such tensor.
            GpuUnavailableError: It will not arrive.
        """

    def wait_on_stream(self, name: str, stream: Any) -> bool:
        """Have a stream of CUDA wait for a tensor; the host waits until it is mapped, and no longer.

        `stream` is an object for a stream of the tensor's device, with `cuda_stream`, as PyTorch's, or
        `__cuda_stream__`; or 1 or 2 for the legacy default stream or that of each thread. A bare handle is refused,
        since the driver would follow it wherever it points. Not during a capture of a graph. Returns false if the
        tensor has arrived already. Results of work that is queued on the stream later count only if
        :meth:`check_streams` succeeds afterwards.

        Raises:
            KeyError: There is no such tensor.
            ValueError: It is another number, or a stream of another device.
            TypeError: It is no object for a stream.
            GpuUnavailableError: It will not arrive, or the device has no such waits: the simulated one.
        """

    def arriving(self) -> list[str]:
        """Return the names of the tensors that have not arrived, in the order of the files. Does not wait.

        Raises:
            GpuUnavailableError: Some will not arrive.
        """

    def unwaited(self, dtypes: Collection[str]) -> list[tuple[str, int, int, Any]]:
        """Return the tensors that have bytes, in the order of the files, without waiting for these.

        Returns:
            Names, addresses, lengths in bytes, and capsules of DLPack over the elements, for callers that wait before
            they use them; `None` for element types that are not among `dtypes`.
        """

    def check_streams(self, timeout: float | None = None) -> None:
        """Wait until all tensors have arrived for which streams wait.

        Raises:
            TimeoutError: They have not arrived within `timeout` seconds.
            GpuUnavailableError: One will not arrive: kernels that were queued after its wait have read undefined bytes.
        """

    def keep_prefix(self, ttft: float, most_bytes: int) -> tuple[int, int]:
        """Ask the mirror to keep a prefix of the model; return its bytes, and the measured bytes per second.

        Raises:
            GpuUnavailableError: The mirror is older than this request, and has hung up: the model is lost.
        """

    def release(self) -> None:
        """Let go of the model. Tensors that were taken from it stay valid, and keep the memory; others are gone."""

    def __getitem__(self, name: str, /) -> DeviceTensor: ...
    @overload
    def get(self, name: str) -> DeviceTensor | None: ...
    @overload
    def get(self, name: str, default: _T) -> DeviceTensor | _T: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[str]: ...
    def keys(self) -> list[str]: ...
    def values(self) -> list[DeviceTensor]: ...
    def items(self) -> list[tuple[str, DeviceTensor]]: ...

@final
class DeviceTensor:
    """A tensor in device memory: C-contiguous, little-endian, not to be written to.

    It has DLPack. With the simulated device the memory is the host's, mapped read-only: a write ends the process.
    """

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str:
        """The element type as safetensors spells it, such as ``"BF16"``."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def id(self) -> str | None:
        """BLAKE3-256 of the bytes."""

    @property
    def address(self) -> int:
        """The address of the first byte, valid while this lives; 0 for a tensor without bytes."""

    @property
    def device(self) -> str:
        """Where it is: ``"cuda:0"``, or ``"simulated"``."""

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the bytes have arrived. Other threads run meanwhile.

        Raises:
            TimeoutError: They have not arrived within `timeout` seconds.
            GpuUnavailableError: They will not arrive.
        """

    def is_ready(self) -> bool:
        """Return whether the bytes have arrived. Does not wait.

        Raises:
            GpuUnavailableError: They will not arrive.
        """

    def unwaited_bytes(self) -> Any:
        """Return a capsule of DLPack over the bytes, in one dimension, for callers that wait before they use them."""

    def bits(self) -> DeviceBits:
        """Return the elements as unsigned integers of the same size, over the same memory.

        For consumers that do not have the element type: NumPy and CuPy before version 14 refuse bfloat16.

        Raises:
            BufferError: The elements have 4 or 6 bits.
        """

    def tobytes(self) -> bytes:
        """Wait for the bytes, and return a copy of them in host memory: for checks.

        Raises:
            GpuUnavailableError: They will not arrive, or cannot be read.
        """

    def __len__(self) -> int: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Wait until the bytes have arrived, and return a capsule over them (array API standard).

        The device has the bytes before the capsule is made, so that every stream sees them: none has to wait for
        another, and `stream` changes nothing. To host memory (`dl_device` ``(1, 0)``) they are copied.

        Raises:
            BufferError: The consumer asks for another device, or for a copy on the device, or DLPack has no such type.
            GpuUnavailableError: The bytes will not arrive.
        """

    def __dlpack_device__(self) -> tuple[int, int]: ...

@final
class DeviceBits:
    """The elements of a tensor in device memory as unsigned integers. It keeps the memory."""

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Wait until the bytes have arrived, and return a capsule over them, as :class:`DeviceTensor` does."""

    def __dlpack_device__(self) -> tuple[int, int]: ...

@final
class UnmappingPause:
    """Keeps this process's device memory mapped: for the capture of a CUDA graph, which unmapping would end."""

    def __new__(cls) -> UnmappingPause: ...
    def end(self) -> None:
        """End the pause, as the end of this object does."""

def create_store(path: _Path, *, allow_other_file_systems: bool = False) -> None:
    """Create an empty store in an empty or new directory on a tmpfs, such as one in ``/dev/shm``.

    The command ``tetris init`` does the same, and can mount a tmpfs with 2 MiB pages.

    Raises:
        StoreError: The directory cannot be one; the subclass has the reason.
    """

def diagnose(
    models: Sequence[_Path], *, store: _Path | None = None, pid: int | None = None, section: str | None = None
) -> tuple[str, str, int]:
    """Look at the store, this machine, models and a process; see :func:`tetris.doctor`.

    Returns the diagnosis as JSON and as text, with `section`, which is JSON, at its end, and the exit code.

    Raises:
        ValueError: `section` is not that of a diagnosis.
    """

def content_id(data: Buffer) -> str:
    """Return the BLAKE3-256 of C-contiguous bytes, over all cores."""

def trace_parent() -> str | None:
    """Return the span that loads of this thread tell the node daemon, as the value of a header `traceparent`."""

def unmodified_id(address: int, nbytes: int) -> str | None:
    """Return the id of bytes that were loaded at this address and not written to since; `None` if that is not known."""

def has_mapped() -> bool:
    """Return whether any tensor that is mapped from the store is alive in this process."""

def unmodified_object(address: int, nbytes: int) -> str | None:
    """Return the file name of the object that bytes are the whole of, if they have not been written to since."""

def is_unmodified(address: int, nbytes: int) -> bool:
    """Return whether bytes are a part of what was loaded from the store, and not written to since."""
