"""The log of this package."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any


class _Log(logging.LoggerAdapter[logging.Logger]):
    """Begins each message with the project's name: many programs print messages without the logger's."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return f"Tetris: {msg}", kwargs


#: The logger ``tetris``. Events of the Rust crates go to loggers below it.
logger = _Log(logging.getLogger("tetris"), {})
