"""Links of all pages: every target is there, with its anchor, and every page that a chapter links to is a chapter."""

import re
from pathlib import Path

from markdown import Link
from pages import ROOT, SUMMARY, all_pages, chapters, page, shown

ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:")


def mistakes() -> list[str]:
    """A line for each mistake."""
    found = [f"docs/SUMMARY.md lists {shown(path)}, which does not exist" for path in chapters() if not path.is_file()]
    twice = {path for path in chapters() if chapters().count(path) > 1}
    found += [f"docs/SUMMARY.md lists {shown(path)} twice" for path in sorted(twice)]
    in_book = set(chapters())
    for path in all_pages():
        # Templates of the repository's host are no pages to read.
        if path != SUMMARY and path not in in_book and not path.is_relative_to(ROOT / ".github"):
            found.append(f"{shown(path)} is no chapter of the book: add it to docs/SUMMARY.md")
        found += of_page(path)
    return found


def of_page(path: Path) -> list[str]:
    """Mistakes in the links of one page."""
    return [f"{shown(path)}:{link.line}: {wrong}" for link in page(path).links if (wrong := mistake(path, link))]


def mistake(path: Path, link: Link) -> str | None:
    """The reason for which a link leads nowhere."""
    if ELSEWHERE.match(link.target):
        return None
    name, _, anchor = link.target.partition("#")
    target = (path.parent / name).resolve() if name else path
    if not target.is_relative_to(ROOT):
        return f"{link.target} leads out of the repository"
    if not target.exists():
        return f"{link.target} does not exist"
    if not anchor:
        return None
    if target.suffix != ".md":
        return f"{link.target} has an anchor, and is no page"
    if anchor not in page(target).anchors:
        near = sorted(page(target).anchors, key=lambda known: -len(set(known.split("-")) & set(anchor.split("-"))))
        return f"{link.target}: no heading has this anchor; expected one such as #{near[0] if near else ''}"
    return None
