"""The table of environment variables: those that the programs' sources name, and no others."""

import re

from pages import ROOT, all_sources

PAGE = "docs/reference/configuration.md"
BEGIN = "## Environment variables"
#: A variable of ours or of traces as a whole literal, or one that clap reads.
NAMED = re.compile(r"(?<![\w.])[\"']((?:TETRIS|OTEL)_[A-Z_]+[A-Z]|TRACEPARENT)[\"']|\benv = \"([A-Z_]+)\"")
#: Variables of tests, of builds and of the benchmarks.
INTERNAL = {"TETRIS_BIN", "TETRIS_CRASH_AT", "TETRIS_CRASH_COUNT_FILE", "TETRIS_PEER_SOCKET"}
FOLDERS = ("agent", "common", "deploy", "reclaimer", "scaler", "store-layout")
ELSEWHERE = {"tests", "benches", "examples", "fake-driver", "packaging"}


def mistakes() -> list[str]:
    """A line for each variable that the page lacks, or has in vain."""
    page = (ROOT / PAGE).read_text()
    listed = set(re.findall(r"^\| `([A-Z_]+)`", page.partition(BEGIN)[2], re.MULTILINE))
    named = set()
    for path in all_sources(".rs", ".py"):
        parts = path.relative_to(ROOT).parts
        if parts[0] in FOLDERS and not ELSEWHERE & set(parts):
            named |= {ours or clap for ours, clap in NAMED.findall(path.read_text())}
    named -= INTERNAL
    if len(named) < 10:
        return [f"only {sorted(named)} are named in the sources"]
    lacks = [f"{PAGE} lacks the environment variable {name}" for name in sorted(named - listed)]
    return lacks + [
        f"{PAGE} has {name}, which no source names"
        for name in sorted(listed - named - {"RUST_LOG", "NO_COLOR", "KUBECONFIG"})
    ]
