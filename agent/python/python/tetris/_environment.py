"""Switches in the environment."""

from __future__ import annotations

import os

ON = ("1", "true", "yes", "on")
#: As in ``tetris_store_patch.pth``, with the empty value, which counts as unset.
OFF = ("0", "false", "no", "off")

#: Messages that were logged.
_told: set[str] = set()


def switch(name: str, *others: str) -> str | None:
    """Return the value of a switch: ``"on"``, ``"off"`` or one of `others`; `None` if the variable is not set.

    Case and surrounding spaces do not matter. A value that is not understood counts as not set, and one warning names
    the accepted ones.
    """
    try:
        return read_switch(name, *others)
    except ValueError as error:
        tell(str(error))
        return None


def read_switch(name: str, *others: str) -> str | None:
    """As :func:`switch`.

    Raises:
        ValueError: The value is not understood.
    """
    found = os.environ.get(name, "")
    value = found.strip().lower()
    if not value:
        return None
    if value in ON:
        return "on"
    if value in OFF:
        return "off"
    if value in others:
        return value
    accepted = "; ".join(" ".join(words) for words in (ON, OFF, others) if words)
    raise ValueError(f"{name} has no effect: expected one of {accepted}, found {found!r}")


def tell(message: str) -> None:
    """Log a warning, once in this process."""
    if message not in _told:
        _told.add(message)
        from tetris._log import logger

        logger.warning("%s", message)
