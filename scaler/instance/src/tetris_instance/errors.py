"""Errors of clients and of operators."""

from __future__ import annotations


class Error(Exception):
    """Base of all errors of this package."""


class ConfigurationError(Error):
    """The server cannot start as configured. Names the option, the value found and the expected
    one.
    """


class RequestError(Error):
    """A request that is answered with an error: ``{"error": message}``.

    Args:
        message: The field, the value found and the expected one.
        status: HTTP status.
        retry_after_s: Seconds after which a retry makes sense; `None` if it does not.
    """

    def __init__(self, message: str, status: int = 400, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


def shown(value: object, limit: int = 60) -> str:
    """Format a value for an error: on one line, with a bounded length."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    if isinstance(value, str | int) and len(str(value)[: limit + 1]) > limit:
        return f"{str(value)[:limit]!r}..."
    return repr(value)
