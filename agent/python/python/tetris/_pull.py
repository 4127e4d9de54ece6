"""Pulling models into the store, by the command ``tetris`` that comes with the package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tetris.errors import PullError


def pull(
    source: str | os.PathLike[str],
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    store: str | os.PathLike[str] | None = None,
    connections: int | None = None,
    limit_rate: str | None = None,
) -> dict[str, Any]:
    """Bring a model from where it is kept straight into the store, and return what was fetched.

    ``source`` is ``hf://ORG/MODEL[@REVISION]``, ``s3://``, ``gs://`` or ``az://BUCKET/FOLDER``, ``https://HOST/FILE``,
    or a folder. No file is written, and only what the store does not have is fetched. ``include`` and ``exclude`` are
    patterns of paths at the source. ``store`` is the directory of the store, by default the one that the command
    ``tetris`` uses. ``connections`` is the number of ranges that are fetched at once, ``limit_rate`` the most bytes
    per second, e.g. ``"500M"``. On a terminal, progress goes to stderr. Credentials come from the environment.

    Returns the command's report of the source: ``files``, ``bytes_fetched``, ``requests`` and others, as
    ``docs/json.md`` has them. Raises :class:`tetris.PullError` with the command's message.
    """
    command: list[str] = [_command()]
    if store is not None:
        command += ["--store", os.fspath(store)]
    command += ["pull", "--format", "json"]
    command += [f"--include={pattern}" for pattern in include]
    command += [f"--exclude={pattern}" for pattern in exclude]
    if connections is not None:
        command.append(f"--connections={connections}")
    if limit_rate is not None:
        command.append(f"--limit-rate={limit_rate}")
    command += ["--", os.fspath(source)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    report = _report(ended.stdout)
    if ended.returncode == 0 and report["sources"]:
        pulled: dict[str, Any] = report["sources"][0]
        return pulled
    errors = report.get("errors") or [report.get("error", {})]
    message = errors[-1].get("message") or f"tetris pull ended with code {ended.returncode}"
    raise PullError(message)


def _command() -> str:
    """Return the path of the command: of this interpreter's package, or else the one on the search path."""
    own = Path(sysconfig.get_path("scripts"), "tetris")
    found = str(own) if own.is_file() else shutil.which("tetris")
    if found is None:
        raise PullError(
            f"expected the command tetris at `{own}` or on the search path, found none; "
            "install it with `pip install tetris-store`, or pull on the node"
        )
    return found


def _report(text: str) -> dict[str, Any]:
    """Return the document that the command printed; an empty one where it printed none."""
    try:
        report = json.loads(text)
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}
