"""The page of HTTP paths: each table has the paths of the routers in the sources that its mark names, and no others."""

import re

from pages import ROOT

PAGE = ROOT / "docs/reference/http.md"
MARK = re.compile(r"<!-- paths of ([^>]+?) -->")
ROUTE = re.compile(r"(?:\.route|\bRoute)\(\s*(?:f?\"([^\"]*)\"|(\w+))")
CONSTANT = re.compile(r"const ([A-Z_]+): &str = \"([^\"]+)\"")
CELL = re.compile(r"^\| `([^`]+)`", re.MULTILINE)


def mistakes() -> list[str]:
    """A line for each path that the page lacks, or has in vain."""
    text = PAGE.read_text()
    marks = list(MARK.finditer(text))
    found = []
    for mark, following in zip(marks, [*marks[1:], None], strict=True):
        files = mark[1].split(", ")
        table = text[mark.end() : following.start() if following else len(text)]
        listed = {path.partition("?")[0] for path in CELL.findall(table)}
        served = set().union(*(routes(file) for file in files))
        if not served:
            found.append(f"docs/reference/http.md: no routes in {mark[1]}")
        found += [f"docs/reference/http.md lacks {path} of {mark[1]}" for path in sorted(served - listed)]
        found += [
            f"docs/reference/http.md has {path}, which {mark[1]} does not serve" for path in sorted(listed - served)
        ]
    if len(marks) < 5:
        found.append(f"docs/reference/http.md has {len(marks)} tables of paths, expected at least 5")
    return found


def routes(file: str) -> set[str]:
    """Paths in the routers of one source."""
    source = (ROOT / file).read_text()
    constants = dict(CONSTANT.findall(source))
    # A variable is a part of paths, and the page has it in braces as a formatted text does. Braces of a path itself are
    # double there.
    found = {literal or constants.get(name, f"{{{name}}}") for literal, name in ROUTE.findall(source)}
    return {path.replace("{{", "{").replace("}}", "}") for path in found}
