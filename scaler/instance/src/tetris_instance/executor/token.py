"""Bearer token of orders, in a file that may change at any time."""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path

from tetris_instance.errors import ConfigurationError

#: Shortest and longest token, in bytes.
_LEAST, _MOST = 16, 4096


class Token:
    """The token in a file.

    Args:
        path: The file. White space around the token does not count.

    Raises:
        ConfigurationError: It has no token.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[object, bytes] | None = None
        if self._token() is None:
            raise ConfigurationError(f"--orders-token-file is {path}; expected a file with {_LEAST} to {_MOST} bytes")

    def allows(self, header: str | None) -> bool:
        """Return true if a header ``Authorization`` has the token. Takes the same time wherever they differ."""
        expected = self._token()
        scheme, _, given = (header or "").partition(" ")
        # Compared in any case, and never true without a token.
        same = hmac.compare_digest(given.strip().encode("latin-1"), expected or b"")
        return expected is not None and scheme.lower() == "bearer" and same

    def _token(self) -> bytes | None:
        """The token as the file has it now; `None` if it has none."""
        try:
            with open(os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
                status = os.fstat(file.fileno())
                version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
                if self._read is None or self._read[0] != version:
                    if not stat.S_ISREG(status.st_mode):
                        return None
                    self._read = (version, file.read(_MOST + 1).strip())
        except OSError:
            return None
        token = self._read[1]
        return token if _LEAST <= len(token) <= _MOST else None
