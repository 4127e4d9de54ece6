"""Parts of the reports' text, for a terminal of 80 columns or more."""

import shutil
from collections.abc import Sequence
from textwrap import fill

WIDTH = 79
"""Columns of running text."""


def prose(text: str) -> str:
    """Running text in lines; those after the first have its indent and two columns more."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def notes(texts: Sequence[str]) -> str:
    """Notes, each from a line of its own, after an empty one."""
    return "\n".join(["", *(prose(f"- {text}") for text in texts)]) + "\n"


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of a table whose first row is its head.

    Columns for which a terminal has no room follow below, in a table of their own with the first column again. Without
    a terminal there is room for all.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    room = shutil.get_terminal_size((0, 0)).columns
    blocks = [[0]]
    for column in range(1, len(widths)):
        taken = sum(widths[other] + 2 for other in [*blocks[-1], column])
        if room and taken > room and len(blocks[-1]) > 1:
            blocks.append([0])
        blocks[-1].append(column)
    lines: list[str] = []
    for block in blocks:
        lines += [""] if lines else []
        for number, row in enumerate(rows):
            lines.append("  " + "  ".join(row[column].ljust(widths[column]) for column in block).rstrip())
            if number == 0:
                lines.append("  " + "  ".join("-" * widths[column] for column in block))
    return lines


def time(nanoseconds: float | None) -> str:
    """A duration with three digits."""
    if nanoseconds is None:
        return "-"
    value = float(nanoseconds)
    for unit in ("ns", "us", "ms"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} s"


def size(count: float) -> str:
    """Bytes with three digits, in binary units."""
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if abs(value) < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} GiB"
