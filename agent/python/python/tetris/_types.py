"""Types that only checkers see."""

from __future__ import annotations

from typing import TypedDict


class Report(TypedDict):
    """Report of a load."""

    #: How each file was recognized: "stat", "blob-name", "sidecar", "brokered", "hashing", "none" without a
    #: store, or "unshared" if sharing it costs more than it saves.
    recognized: list[str]
    tensors: int
    #: Objects that the model is mapped from, or private buffers.
    objects: int
    #: Bytes of objects that were in the store already.
    bytes_shared: int
    #: Bytes of objects that this load published.
    bytes_new: int
    #: Bytes in private memory, because the store could not take them.
    bytes_private: int
    #: Bytes in private memory by choice: of files whose sharing costs more than it saves.
    bytes_unshared: int
    #: Bytes of tensors read from the file, beside the samples that are compared; 0 for a known file.
    bytes_read: int
    #: Bytes of `bytes_shared` that came into the store from other files: the page cache would not share them.
    bytes_of_other_files: int
    #: Why some bytes are private or unshared, if any are.
    private_reason: str | None
    #: The cause of that reason, such as "read-only", "not-mine", "full" or "small-file".
    private_cause: str | None
    #: The next step that makes those bytes shared, with a command to run.
    private_remedy: str | None
    seconds: float


class Counters(TypedDict):
    """Counts of an agent since it was made."""

    loads: int
    #: Loads of which some part is in private memory because the store could not take it.
    private_loads: int
    #: Files that the node daemon published for this process.
    brokered_files: int
    private_bytes: int
    #: Bytes that were in the store already: memory saved against private copies.
    shared_bytes: int
    #: Bytes that this process published.
    new_bytes: int
    #: Bytes of `shared_bytes` from other files: memory saved against the page cache as well.
    other_file_bytes: int
    #: Files whose sharing costs more than it saves, and their bytes.
    unshared_files: int
    unshared_bytes: int


class GpuDevice(TypedDict):
    """A device of the node's GPU mirror."""

    #: Its number at the mirror.
    number: int
    #: Its name for :func:`tetris.gpu.load`, such as "cuda:0" or "simulated"; `None` if this process does not see it.
    device: str | None
    #: As ``nvidia-smi -L`` prints it, without the prefix ``GPU-``.
    uuid: str
    #: The product's name.
    name: str
    total_bytes: int
    #: Bytes not taken at the moment.
    free_bytes: int
    #: What the mirror may take.
    capacity_bytes: int


class GpuDeviceStatus(TypedDict):
    """Use of a device by the mirror."""

    uuid: str
    #: What the mirror may take.
    capacity_bytes: int
    #: Its chunks.
    created_bytes: int
    #: Tensors in them.
    live_bytes: int
    #: Tensors that processes hold.
    held_bytes: int
    #: Models of which something is there.
    models: int
    #: Models that processes hold.
    held_models: int


class GpuLink(TypedDict):
    """A direct link to another device."""

    #: UUID of the device at the other end.
    to: str
    #: Its rate; `None` until it is measured or configured.
    bytes_per_second: int | None


class GpuTransfer(TypedDict):
    """Bytes on their way to a device."""

    #: The model; `None` for all models together that this process has not named.
    model: str | None
    bytes_left: int


class GpuModel(TypedDict):
    """A model that this process has named."""

    #: Identity of its content, as :attr:`tetris.gpu.Prefetch.model` has it.
    model: str
    bytes: int
    #: "absent", "loading" or "resident".
    state: str
    #: What is not on the device.
    bytes_left: int


class GpuStatus(TypedDict):
    """State of a device of the node's GPU mirror."""

    uuid: str
    #: What the mirror may take at present.
    capacity_bytes: int
    #: What of that has no chunk. Models without holders leave for others beyond it.
    free_bytes: int
    #: Rate of the link from the host; `None` until it is measured or configured.
    bytes_per_second: int | None
    #: Length up to which a model is light, and leaves first: its transfer takes little time.
    light_bytes: int
    #: The switch between device and host, whose bandwidth the devices there share; `None` if it is not known.
    switch: str | None
    links: list[GpuLink]
    transfers: list[GpuTransfer]
    models: list[GpuModel]


class GpuUsage(TypedDict):
    """Use of the node's GPU mirror, for all of its stores."""

    #: Connections, the asking one included.
    connections: int
    #: Connections that hold a model.
    leases: int
    #: Connections that wait for room.
    waiting: int
    devices: list[GpuDeviceStatus]
