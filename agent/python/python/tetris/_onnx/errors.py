"""Reasons to leave a session to plain ONNX Runtime. None of these reaches the caller of a session."""

from __future__ import annotations


class Unsupported(Exception):
    """The model has something that is not rewritten. It is the model's own, so it can be remembered for it."""


class Unavailable(Exception):
    """Something around the model is missing now: its files, room in the store, a package."""


class NoStore(Unavailable):
    """The agent has no store."""


class NoRoom(Unavailable):
    """There is too little room for temporary files, so that nothing can be prepacked now."""
