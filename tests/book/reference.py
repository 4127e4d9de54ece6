"""Pages that are written from the code: the Python package, JSON documents, HTTP paths, and environment variables.

The pages of programs, custom resources, metrics and exit codes are written by the tests of their crates, with
UPDATE_GOLDEN=1.
"""

import environment
import http_paths
import json_documents
import python_api
from pages import ROOT


def mistakes(write: bool) -> list[str]:
    """Compares the pages with the code, or writes them."""
    found = []
    generated = {
        "docs/reference/python.md": python_api.page,
        "docs/reference/json.md": json_documents.page,
    }
    for name, make in generated.items():
        path = ROOT / name
        expected = make()
        if write:
            path.write_text(expected)
        elif not path.exists() or path.read_text() != expected:
            found.append(f"{name} differs from the code; `python3 tests/book reference --write` writes it")
    return found + http_paths.mistakes() + environment.mistakes()
