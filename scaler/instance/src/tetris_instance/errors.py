"""Errors: what a client did, and what an operator did."""

from __future__ import annotations


class Error(Exception):
    """The base of all errors of this package."""


class ConfigurationError(Error):
    """The server cannot start as it was asked to. Says which option, what was found and what was expected."""


class RequestError(Error):
    """A request that is answered with an error: ``{"error": message}``.

    Args:
        message: What is wrong: the field, the found, the expected.
        status: The status code of HTTP.
        retry_after_s: When it makes sense to try again, in seconds; `None` if it does not.
    """

    def __init__(self, message: str, status: int = 400, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s


def shown(value: object, limit: int = 60) -> str:
    """Return a value as an error may show it: on one line, and never long."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'an array'} of {len(value)}"
    if isinstance(value, str | int) and len(str(value)[: limit + 1]) > limit:
        return f"{str(value)[:limit]!r}..."
    return repr(value)
