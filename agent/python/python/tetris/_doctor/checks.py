"""Checks in the form of the native half."""

from __future__ import annotations

from typing import Any


def check(
    name: str,
    status: str,
    found: str,
    *,
    expected: str | None = None,
    remedy: str | None = None,
    facts: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a check: its name, its status, the state that was found and the expected one, and the next step."""
    return {
        "name": name,
        "status": status,
        "found": found,
        "expected": expected,
        "remedy": remedy,
        "facts": facts or {},
    }
