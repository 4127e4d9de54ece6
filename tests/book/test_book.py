"""Tests of this tool: it sees what it is for."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import commands
import http_paths
import json_documents
import links
import pages
import python_api
import run
from markdown import Page, anchor

PAGE = """# A `title`: <of> it

Text with a [link](other.md#there), `[no link](x.md)`, an ![image](a.svg) and [two
lines](b.md).

    indented --code

- an item

      not code of the page's own

```sh run torch
echo "[no](link.md)"
```

```text output
...
```

## Twice
## Twice
"""


class MarkdownTest(unittest.TestCase):
    """Parts of pages."""

    def test_headings_have_the_anchors_of_forges(self):
        self.assertEqual(Page(Path("p.md"), PAGE).anchors, {"a-title-of-it", "twice", "twice-1"})
        self.assertEqual(
            anchor("3.2 `manifests-v1/<manifest id>`: one model file"), "32-manifests-v1manifest-id-one-model-file"
        )
        self.assertEqual(anchor("In [the store](x.md), **now**"), "in-the-store-now")

    def test_links_in_code_are_none(self):
        found = [(link.line, link.target, link.is_image) for link in Page(Path("p.md"), PAGE).links]
        self.assertEqual(found, [(3, "other.md#there", False), (3, "a.svg", True), (3, "b.md", False)])

    def test_blocks_have_their_words_and_lines(self):
        found = [(code.line, code.words, code.lines) for code in Page(Path("p.md"), PAGE).code]
        self.assertIn((6, (), ("indented --code",)), found)
        self.assertIn((12, ("sh", "run", "torch"), ('echo "[no](link.md)"',)), found)
        self.assertEqual(len(found), 3)


class LinksTest(unittest.TestCase):
    """Links of pages."""

    def test_each_kind_of_wrong_link_is_found(self):
        page = pages.ROOT / "docs/glossary.md"
        for target, part in [
            ("nowhere.md", "does not exist"),
            ("../LAYOUT.md#nowhere", "no heading"),
            ("../justfile#line", "is no page"),
            ("../../outside.md", "out of the repository"),
        ]:
            found = links.mistake(page, links.Link(1, target, False))
            self.assertIn(part, found or "", target)
        for target in ["../LAYOUT.md#4-locks", "https://example.com/x#y", "#store", "../justfile"]:
            self.assertIsNone(links.mistake(page, links.Link(1, target, False)), target)


class RunTest(unittest.TestCase):
    """Commands of pages."""

    def test_outputs_fit_with_wildcards(self):
        self.assertTrue(run.fits("a ... b", "a  1 2\n3   b"))
        self.assertTrue(run.fits("total  5 MiB", "total     5 MiB"))
        self.assertFalse(run.fits("a ... b", "a 1 c"))
        self.assertFalse(run.fits("a", "a\nb"))

    def test_blocks_have_to_say_what_becomes_of_them(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.md"
            path.write_text(
                "```sh\nls\n```\n\n```sh by=nowhere\nls\n```\n\n```sh by=justfile\nls\n```\n\n```sh run\nls\n```\n"
            )
            found = run.unmarked(path)
        self.assertEqual(len(found), 2)
        self.assertIn("neither", found[0])
        self.assertIn("by=nowhere does not exist", found[1])

    def test_a_page_that_fails_or_prints_something_else_is_a_mistake(self):
        if reason := run.cannot_run():
            self.skipTest(reason)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.md"
            path.write_text("```text file=a.txt\none\n```\n\n```sh run\ncat a.txt\n```\n\n```text output\ntwo\n```\n")
            self.assertIn(
                "expected\ntwo\nfound\none", run.run_page(path, pages.ROOT, run.able(path, set(), say=True))[0]
            )
            path.write_text("```sh run\ntrue\n```\n\n```sh run\necho told >&2; false\n```\n")
            pages.page.cache_clear()
            found = run.run_page(path, pages.ROOT, run.able(path, set(), say=True))
        self.assertIn(":5: the commands ended with 1", found[0])
        self.assertIn("told", found[0])

    def test_blocks_are_chosen_by_all_of_their_words(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.md"
            path.write_text("```sh by=x y\none\n```\n\n```sh by=x\ntwo\n```\n")
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                self.assertEqual(run.print_blocks(str(path), {"by=x"}), [])
                self.assertEqual(run.print_blocks(str(path), {"by=x", "y"}), [])
                self.assertIn("no block has z", run.print_blocks(str(path), {"z"})[0])
        self.assertEqual(printed.getvalue(), "one\ntwo\none\n")


class CommandsTest(unittest.TestCase):
    """Commands in blocks of code."""

    def test_lines_are_split_into_commands(self):
        line = "TETRIS_LOG=debug sudo tetris load m --format json | grep x && cargo test -p a   # tetris in a comment"
        self.assertEqual(
            list(commands.split(line)),
            [["tetris", "load", "m", "--format", "json"], ["grep", "x"], ["cargo", "test", "-p", "a"]],
        )

    def test_packages_and_paths_have_to_be_there(self):
        self.assertEqual(commands.check(Path("/nowhere"), ["cargo", "test", "-p", "tetris-agent"]), [])
        self.assertEqual(
            commands.check(Path("/nowhere"), ["cargo", "test", "-p", "tetris-agnt"]), ["no package tetris-agnt"]
        )
        self.assertEqual(
            commands.check(Path("/nowhere"), ["kubectl", "apply", "-k", "deploy/overlays/nod"]),
            ["deploy/overlays/nod does not exist"],
        )


class ReferenceTest(unittest.TestCase):
    """Generated pages."""

    def test_docstrings_become_markdown(self):
        text = (
            "Load ``x`` as :func:`tetris.load` does::\n\n    a = 1\n\nArgs:\n    path: The file,\n        or folder.\n"
        )
        expected = "Load `x` as `tetris.load` does:\n\n```python\na = 1\n```\n\n\n"
        expected += "**Arguments**\n\n- `path`: The file, or folder.\n"
        self.assertEqual(python_api.prose(text), expected)

    def test_every_public_name_is_on_the_page(self):
        page = python_api.page()
        for name in (
            "tetris.load",
            "tetris.torch.load_file",
            "tetris.errors.NoStoreError",
            "tetris.gpu.load",
            "tetris.Agent",
        ):
            self.assertIn(f"### `{name}`\n", page)

    def test_fields_of_documents_are_rows(self):
        schema = {
            "required": ["a"],
            "properties": {
                "a": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": ["string", "null"]}}}}
            },
        }
        self.assertEqual(
            json_documents.rows(schema, ""), ["| `a` | array of object |", "| *`a[].b`* | string or null |"]
        )

    def test_routes_are_found_in_rust_and_python(self):
        self.assertIn("/mutate/namespace", http_paths.routes("deploy/webhook/src/http/mod.rs"))
        self.assertIn("{prefix}/infer", http_paths.routes("scaler/instance/src/tetris_instance/protocol.py"))
        executor = http_paths.routes("scaler/instance/src/tetris_instance/executor/app.py")
        self.assertIn("{repository}/models/{name}/load", executor)


if __name__ == "__main__":
    unittest.main()
