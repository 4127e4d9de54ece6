"""The book as HTML: pages staged in a tree like the repository's, mdBook, and a check of every link of the result.

mdBook wants all chapters in one folder, and copies every other file that it finds there. So chapters, their images
and the files that they link to are copied to target/book/src, each under its own path.
"""

import html.parser
import os
import re
import shutil
import subprocess
import urllib.parse
import webbrowser
from pathlib import Path

from links import ELSEWHERE
from markdown import LINK
from pages import ENTRY, ROOT, SUMMARY, chapters, page, shown

#: The version that the book is built with.
MDBOOK = "0.5.4"
IMAGES = {".svg", ".png"}


def build(open_it: bool) -> list[str]:
    """Builds the book and returns a line for each mistake in it."""
    tool = find_mdbook()
    if tool is None:
        return [f"no mdbook {MDBOOK}; install it with: cargo install --locked mdbook --version {MDBOOK}"]
    stage = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "book"
    shutil.rmtree(stage, ignore_errors=True)
    source = stage / "src"
    for path in chapters():
        copy_page(path, source)
    write_summary(source)
    shutil.copy(ROOT / "docs/book.toml", stage)
    shutil.copytree(ROOT / "docs/theme", stage / "theme")
    subprocess.run([tool, "build", str(stage)], check=True)
    output = stage / "book"
    found = broken_links(output)
    if not found:
        print(output / "index.html")
    if open_it:
        webbrowser.open((output / "index.html").as_uri())
    return found


def find_mdbook() -> str | None:
    """Path of mdBook in the wanted version."""
    tool = os.environ.get("MDBOOK") or shutil.which("mdbook")
    if tool is None:
        return None
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout.strip()
    return tool if version.split("v")[-1] == MDBOOK else None


def copy_page(path: Path, source: Path) -> None:
    """Copies a chapter, with the files that it links to. A link to a folder, or to the contents, becomes its text."""
    text = path.read_text()
    known = {(link.line, link.target) for link in page(path).links}

    def replaced(match: re.Match[str]) -> str:
        # What looks like a link in code is none.
        if (text.count("\n", 0, match.start()) + 1, match[3]) not in known:
            return match[0]
        return staged(match, path, source)

    target = source / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(LINK.sub(replaced, text))


def staged(match: re.Match[str], path: Path, source: Path) -> str:
    """A link as it is in the book."""
    name, _, _ = match[3].partition("#")
    if not name or ELSEWHERE.match(name):
        return match[0]
    target = (path.parent / name).resolve()
    if target in chapters():
        return match[0]
    if target.is_dir() or target == SUMMARY:
        return match[2]
    suffix = "" if target.suffix in IMAGES else ".txt"
    copy = source / (str(target.relative_to(ROOT)) + suffix)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(target, copy)
    return f"{match[1]}[{match[2]}]({name}{suffix})"


def write_summary(source: Path) -> None:
    """Writes the table of contents, with paths from the root."""

    def from_root(line: str) -> str:
        entry = ENTRY.match(line)
        if not entry:
            return line
        path = (SUMMARY.parent / entry[1]).resolve()
        return line.replace(f"({entry[1]})", f"({path.relative_to(ROOT)})")

    lines = SUMMARY.read_text().splitlines()
    (source / "SUMMARY.md").write_text("\n".join(map(from_root, lines)) + "\n")


class Document(html.parser.HTMLParser):
    """Targets and anchors of one page."""

    def __init__(self, text: str) -> None:
        """Reads a page."""
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps the attributes that are targets and anchors."""
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("href", "src") and value:
                self.targets.append(value)


def broken_links(output: Path) -> list[str]:
    """Links of the built pages that lead nowhere, or out to the network where nobody clicked."""
    documents = {
        path: Document(path.read_text())
        for path in sorted(output.rglob("*.html"))
        if path.name not in ("404.html", "toc.html")
    }
    if len(documents) < len(chapters()):
        return [f"{shown(output)} has {len(documents)} pages, expected {len(chapters())}"]
    found = []
    for path, document in documents.items():
        for target in document.targets:
            if ELSEWHERE.match(target):
                continue
            name, _, anchor = urllib.parse.unquote(target).partition("#")
            there = (path.parent / name.partition("?")[0]).resolve() if name else path
            if not there.exists():
                found.append(f"{path.relative_to(output)}: {target} does not exist")
            elif anchor and there in documents and anchor not in documents[there].anchors:
                found.append(f"{path.relative_to(output)}: {target} has no such anchor")
    return found
