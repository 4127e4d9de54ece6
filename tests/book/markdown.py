"""Parts of a Markdown page: headings with their anchors, links, and blocks of code."""

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^( *)(```+)(.*)$")
HEADING = re.compile(r"^(#{1,6}) +(.*?) *#*$")
# A link's text may have brackets of its own (an image); a target has no spaces on these pages.
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\](?:\([^)]*\))?)*)\]\(([^()\s]+(?:\([^()\s]*\))?)\)")
CODE_SPAN = re.compile(r"(`+)(?!`)(.*?)(?<!`)\1(?!`)", re.DOTALL)


@dataclass(frozen=True)
class Link:
    """A link or an image, with the number of its line from 1."""

    line: int
    target: str
    is_image: bool


@dataclass(frozen=True)
class Code:
    """A block of code: the words behind its fence (none of an indented block), and its lines."""

    line: int
    words: tuple[str, ...]
    lines: tuple[str, ...]


class Page:
    """A page, taken apart."""

    def __init__(self, path: Path, text: str) -> None:
        """Takes `text` apart; `path` is for messages and for the targets of links."""
        self.path = path
        self.anchors: set[str] = set()
        self.title = ""
        self.code: list[Code] = []
        self._prose: list[tuple[int, str]] = []
        self._read(text.splitlines())
        self.links = list(self._links())

    def _read(self, lines: list[str]) -> None:
        taken: dict[str, int] = {}
        block: list[str] = []
        began, words, fence = 0, (), ""
        for number, line in enumerate(lines, 1):
            mark = FENCE.match(line)
            if fence:
                if mark and mark[2] == fence and not mark[3].strip():
                    self.code.append(Code(began, words, tuple(block)))
                    fence, block = "", []
                else:
                    block.append(line)
            elif mark:
                self._end_indented(block, began)
                began, words, fence, block = number, tuple(mark[3].replace(",", " ").split()), mark[2], []
            elif line.startswith("    ") and (block or self._may_begin_code()):
                began = began if block else number
                block.append(line[4:])
            elif not line.strip() and block:
                block.append("")
            else:
                self._end_indented(block, began)
                block = []
                self._prose.append((number, line))
                heading = HEADING.match(line)
                if heading:
                    self.title = self.title or heading[2]
                    self.anchors.add(unique(anchor(heading[2]), taken))
        self._end_indented(block, began)

    def _may_begin_code(self) -> bool:
        """Returns true if an indented line is code here: after an empty line that is not within a list."""
        for _, line in reversed(self._prose):
            if line.strip():
                # A list continues over empty lines while lines are indented.
                return not re.match(r"^ *([-*]|\d+\.) ", line) and not line.startswith("  ")
        return True

    def _end_indented(self, block: list[str], began: int) -> None:
        if block:
            while block and not block[-1]:
                block.pop()
            self.code.append(Code(began, (), tuple(block)))
            block.clear()

    def _links(self):
        text = "\n".join(line for _, line in self._prose)
        numbers = [number for number, _ in self._prose]
        bare = CODE_SPAN.sub(lambda span: re.sub(r"[^\n]", "`", span[0]), text)
        for found in LINK.finditer(bare):
            line = numbers[bare.count("\n", 0, found.start())]
            yield Link(line, found[3], found[1] == "!")
            for inner in LINK.finditer(found[2]):
                yield Link(line, inner[3], inner[1] == "!")


def anchor(heading: str) -> str:
    """The anchor that forges and mdBook give a heading."""
    text = LINK.sub(lambda link: link[2], heading).replace("`", "")
    text = re.sub(r"\*\*|__|(?<!\w)\*|\*(?!\w)", "", text)
    kept = "".join(c for c in text.lower() if c.isalnum() or c in "_- ")
    return kept.replace(" ", "-")


def unique(name: str, taken: dict[str, int]) -> str:
    """`name`, with a number where a heading before has the same."""
    taken[name] = taken.get(name, -1) + 1
    return f"{name}-{taken[name]}" if taken[name] else name
