"""Pages of the repository, and those of them that are chapters of the book."""

import functools
import re
import subprocess
from pathlib import Path

from markdown import Page

ROOT = Path(__file__).resolve().parent.parent.parent
SUMMARY = ROOT / "docs/SUMMARY.md"
ENTRY = re.compile(r"^ *(?:- )?\[[^\]]*\]\(([^)]+)\)$")


@functools.cache
def page(path: Path) -> Page:
    """A page by its absolute path; empty where there is none, which `links` says."""
    return Page(path, path.read_text() if path.is_file() else "")


@functools.cache
def chapters() -> tuple[Path, ...]:
    """Absolute paths of the chapters, in the order of docs/SUMMARY.md."""
    entries = (ENTRY.match(line) for line in SUMMARY.read_text().splitlines())
    return tuple((SUMMARY.parent / entry[1]).resolve() for entry in entries if entry)


@functools.cache
def all_pages() -> tuple[Path, ...]:
    """Absolute paths of all Markdown pages."""
    return all_sources(".md")


@functools.cache
def all_sources(*suffixes: str) -> tuple[Path, ...]:
    """Absolute paths of files with these suffixes that git has or does not ignore; without git, of all but outputs."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode == 0 and listed.stdout:
        return tuple(
            sorted(
                ROOT / name for name in listed.stdout.splitlines() if name.endswith(suffixes) and (ROOT / name).exists()
            )
        )
    outputs = {"target", "node_modules", "venv", "build"}
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.suffix in suffixes)
    return tuple(
        sorted(ROOT / path for path in found if not any(part in outputs or part.startswith(".") for part in path.parts))
    )


def shown(path: Path) -> str:
    """The path as messages have it: relative to the root where it is below it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
