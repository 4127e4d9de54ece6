"""Versions of the libraries that load models, beside those that are tested."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from tetris._doctor.checks import check
from tetris._tested import TESTED, is_older, known, release_of


def package_checks() -> list[dict[str, Any]]:
    """Return one check for all libraries in the tested range, and one for each outside of it."""
    found = {name: version for name in TESTED if (version := _installed(name)) is not None}
    outside = [_outside(name, version) for name, version in found.items()]
    doubtful = [one for one in outside if one is not None]
    names = {one["facts"]["name"] for one in doubtful}
    tested = [f"{name} {version}" for name, version in found.items() if name not in names]
    words = ", ".join(tested) if tested else "none in the tested range"
    return [check("libraries", "ok", words, facts={"versions": found}), *doubtful]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _outside(name: str, version: str) -> dict[str, Any] | None:
    oldest, newest = TESTED[name]
    facts = {"name": name, "version": version, "oldest": oldest, "newest": newest}
    release = release_of(version)
    if release is None:
        return check(name, "note", f"{version}, which is no version number", facts=facts)
    if oldest is not None and is_older(version, oldest):
        return check(
            name,
            "warning",
            f"{version} is older than any that works",
            expected=f"{oldest} or later",
            remedy=f"run `pip install '{name}>={oldest}'`",
            facts=facts,
        )
    if release > known(newest):
        return check(name, "note", f"{version} is newer than {newest}, the newest tested", facts=facts)
    return None
