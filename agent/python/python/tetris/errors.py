"""Errors as a tree: catch :class:`Error` for everything, or as narrowly as you like.

The classes mirror the errors of the Rust crates. A message names the path, what was expected, what was found, and
what to do next.
"""


class Error(Exception):
    """Base of every error of this package."""


class StoreError(Error):
    """A tensor store cannot be used. Raised only where a store was asked for by name; loads go on without one."""


class NoStoreError(StoreError):
    """There is no store at the path."""


class NotAStoreError(StoreError):
    """The directory exists and holds no store."""


class UntrustedStoreError(StoreError):
    """The default store belongs to another user, and was not named."""


class StoreVersionError(StoreError):
    """The store was made by another version of this software."""


class StoreDamagedError(StoreError):
    """The store's header, a record or an object is damaged."""


class NotTmpfsError(StoreError):
    """The directory is not on a tmpfs."""


class NotEmptyError(StoreError):
    """A store cannot be created in a directory that holds something else."""


class StoreIOError(StoreError):
    """A system call failed on the store."""


class ShareError(Error):
    """Bytes could not be put into the store. The caller keeps them."""


class StoreFullError(ShareError):
    """The store has no room left, and nothing that could be freed."""


class ReadOnlyStoreError(ShareError):
    """This process can only read the store."""


class PullError(Error):
    """A model could not be pulled. What was fetched stays in the store, and another pull goes on from there."""


class LoadError(Error):
    """A model could not be loaded: its file is missing or invalid. Never because of the store."""


class ModelIOError(LoadError):
    """The model file could not be opened or read."""


class ModelNotFoundError(ModelIOError, FileNotFoundError):
    """There is no such model file."""


class NotAModelError(LoadError):
    """The directory is not laid out as that of a model."""


class NotAFileError(LoadError):
    """The path is not that of a regular file."""


class HeaderError(LoadError, ValueError):
    """The file's safetensors header is invalid."""


class ChangedError(LoadError):
    """The file kept changing while it was read."""


class DuplicateTensorError(LoadError):
    """A tensor is in two files of the model, and no index names the one that counts."""


class MissingTensorError(LoadError):
    """The index names a tensor that its file does not have."""


class DtypeError(LoadError):
    """The file has elements of a type that this version does not know."""


class OutOfMemoryError(LoadError, MemoryError):
    """There is no memory for a private copy of what the store cannot hold."""


class GpuUnavailableError(Error, RuntimeError):
    """The node's GPU mirror gives no device memory; the message has the reason. The weights load as without it."""


class ReadOnlyTensorError(Error, RuntimeError):
    """Something tried to write to a tensor that was loaded with ``mode="read_only"``."""
