"""Command lines of the benchmarks: parsers with help for a terminal of 80 columns, and types of options."""

import argparse
import importlib.util
import sys
from collections.abc import Iterable
from textwrap import fill, wrap

from .text import WIDTH


def parser(module: str, description: str, *epilog: str) -> argparse.ArgumentParser:
    """A parser whose help wraps the description and keeps the lines of the epilog's parts."""
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=fill(description, WIDTH),
        epilog="\n".join(epilog),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def names(title: str, described: Iterable[tuple[str, str]]) -> str:
    """A part of the epilog: names, each with its wrapped description beside it."""
    described = list(described)
    indent = max(len(name) for name, _ in described) + 4
    lines = [f"{title}:"]
    for name, description in described:
        first, *others = wrap(description, WIDTH - indent)
        lines.append(f"  {name}".ljust(indent) + first)
        lines += [" " * indent + other for other in others]
    return "\n".join(lines) + "\n"


def require(options: argparse.ArgumentParser, *packages: str) -> None:
    """Ends the command with code 1 if a package is not installed, and says how it can be."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        options.exit(
            1,
            f"{options.prog}: needs {', '.join(missing)}, not installed for {sys.executable}: "
            f"`{sys.executable} -m pip install {' '.join(missing)}`\n",
        )


def count(text: str) -> int:
    """A number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found `{text}`")
    return int(text)


def count_or_none(text: str) -> int:
    """A number, or 0 for nothing."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number, or 0 for none, found `{text}`")
    return int(text)
