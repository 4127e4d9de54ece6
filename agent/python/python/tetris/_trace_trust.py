"""Trust in files beside a model: the accounts that may have written them."""

from __future__ import annotations

import os
import stat


class UntrustedFileError(ValueError):
    """A file that another account than the model's owner, root or this process's may have written."""


def check_writers(path: str | os.PathLike[str], status: os.stat_result, model: str | os.PathLike[str] | None) -> None:
    """Check that only accounts that are trusted with the model may write to a file.

    The owner of the file must be root, this process's user, or the owner of the model. Its group may write to it only
    if the model's file has the same group, which may write there, too; others may not.

    Args:
        path: The file, for the message.
        status: Its status, of the open descriptor that is read.
        model: The model's file or directory that the file is about; `None` if it is not known.

    Raises:
        UntrustedFileError: Another account may write to it.
    """
    of_model = _status(model)
    owners = {0, os.geteuid()} | (set() if of_model is None else {of_model.st_uid})
    if status.st_uid not in owners:
        expected = " or ".join(str(owner) for owner in sorted(owners))
        raise UntrustedFileError(
            f"{path} is owned by user {status.st_uid}, expected user {expected}: the model's owner, root or this "
            "process's; copy the file if it is to be trusted"
        )
    refused = stat.S_IWOTH
    if of_model is None or not of_model.st_mode & stat.S_IWGRP or of_model.st_gid != status.st_gid:
        refused |= stat.S_IWGRP
    if status.st_mode & refused:
        mode = stat.S_IMODE(status.st_mode)
        raise UntrustedFileError(
            f"{path} has mode {mode:04o}, expected one that others cannot write to; chmod go-w if it is to be trusted"
        )


def _status(model: str | os.PathLike[str] | None) -> os.stat_result | None:
    try:
        return None if model is None else os.stat(model)
    except OSError:
        return None
