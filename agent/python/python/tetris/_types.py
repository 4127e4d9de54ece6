"""Types that only checkers see."""

from __future__ import annotations

from typing import TypedDict


class Report(TypedDict):
    """What a load did."""

    #: How each file was recognised: "stat", "blob-name", "sidecar", "brokered", "hashing", or "none" without a store.
    recognised: list[str]
    tensors: int
    #: Objects that the model is mapped from, or private buffers.
    objects: int
    #: Bytes of objects that were in the store already.
    bytes_shared: int
    #: Bytes of objects that this load published.
    bytes_new: int
    #: Bytes in private memory, because the store could not take them.
    bytes_private: int
    #: Bytes of tensors read from the file; 0 for a known file.
    bytes_read: int
    #: Why some bytes are private, if any are.
    private_reason: str | None
    seconds: float


class Counters(TypedDict):
    """Counts of an agent since it was made."""

    loads: int
    #: Loads of which some part is in private memory.
    private_loads: int
    private_bytes: int
