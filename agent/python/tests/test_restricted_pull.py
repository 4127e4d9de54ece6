"""Pulls by processes that can only read the store, as those of pods: the node's daemon publishes what they fetch."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import tetris
import torch
from process import HANGS_S, objects
from restricted import Restricted
from safetensors.torch import save

#: No users of the machine.
USER, OTHER = 47_120, 47_121
PREAMBLE = """
import json, os, sys
import tetris
os.environ["HF_ENDPOINT"], os.environ["HF_HOME"] = sys.argv[1], "/nowhere"

def pulled():
    report = tetris.pull("hf://org/m")
    known = [file["known_by"] for file in report["files"]]
    new = sum(file["objects_new"] for file in report["files"])
    return [known, new, report["bytes_fetched"], report["requests"]]
"""
#: A pull that must fail; prints the reason.
FAILING = """
try:
    pulled()
except tetris.PullError as error:
    print(json.dumps(str(error)))
"""


class Hub(ThreadingHTTPServer):
    """A hub with one repository, which promises the SHA-256 of its weights."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), HubRequest)
        tensors = {f"w{index}": torch.randn(1000, 1000 + index) for index in range(3)}
        small = {f"b{index}": torch.randn(10 + index) for index in range(20)}
        self.files = {"config.json": b"{}", "model.safetensors": save({**tensors, **small})}
        self.sha256 = hashlib.sha256(self.files["model.safetensors"]).hexdigest()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address for ``HF_ENDPOINT``."""
        return f"http://127.0.0.1:{self.server_port}"

    def listing(self) -> dict[str, Any]:
        """The answer to a question for the repository's files."""
        siblings: list[dict[str, Any]] = [
            {"rfilename": name, "size": len(content), "blobId": hashlib.sha1(content).hexdigest()}
            for name, content in self.files.items()
        ]
        siblings[1]["lfs"] = {"sha256": self.sha256, "size": len(self.files["model.safetensors"])}
        return {"id": "org/m", "sha": "1" * 40, "siblings": siblings}


class HubRequest(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server: Hub

    def do_GET(self) -> None:
        """Send the listing, or a range of a file."""
        if self.path.startswith("/api/"):
            return self.answer(200, json.dumps(self.server.listing()).encode())
        content = self.server.files[self.path.rpartition("/")[2]]
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last) + 1]
        self.answer(206, part, f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}")

    def answer(self, status: int, body: bytes, content_range: str | None = None) -> None:
        """Send a body."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A hub."""
    made = Hub()
    yield made
    made.shutdown()


@pytest.fixture
def restricted(empty_dir: Path) -> Iterator[Restricted]:
    """A store with a daemon."""
    made = Restricted(empty_dir, PREAMBLE)
    yield made
    made.end()


def test_a_model_is_pulled_through_the_daemon_and_known_to_all_by_its_digest(restricted: Restricted, hub: Hub) -> None:
    program = "print(json.dumps([os.access(tetris.agent().store, 2), pulled(), pulled()]))"
    writable, first, again = restricted.python(program, hub.url, user=USER)
    assert not writable
    size = sum(map(len, hub.files.values()))
    assert (first[0], first[2]) == (["reading", "reading"], size)
    # By the digest that the daemon proved, and by the list that this user's first pull left.
    assert again == [["version", "sha256"], 0, 0, 1]
    before = objects(restricted.store)
    known, new, fetched, _ = restricted.python("print(json.dumps(pulled()))", hub.url, user=OTHER)
    assert known == ["reading", "sha256"]
    # The other user's word is not taken for the version of a file.
    assert (new, fetched < 10_000) == (0, True)
    # The same header and the same list are the same objects.
    assert sorted(objects(restricted.store)) == sorted(before)
    # The file by any other name is that model.
    copy = restricted.file("models/copy.safetensors")
    copy.write_bytes(hub.files["model.safetensors"])
    program = (
        "report = tetris.load(sys.argv[2]).report; print(json.dumps([report['bytes_new'], report['bytes_private']]))"
    )
    assert restricted.python(program, hub.url, copy, user=OTHER) == [0, 0]


def names(store: Path) -> list[str]:
    """The objects of a store, by name; none before it is made."""
    return sorted(path.name for path in objects(store)) if store.exists() else []


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + HANGS_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_model_comes_back_from_the_disk_to_the_user_who_pulled_it(empty_dir: Path, hub: Hub, tmp_path: Path) -> None:
    cold = tmp_path / "cold"
    configuration = f'cold = {{ path = "{cold}", size_bytes = "1GiB", free_percent = 0 }}\n'
    restricted = Restricted(empty_dir, PREAMBLE, configuration)
    try:
        restricted.python("print(json.dumps(pulled()))", hub.url, user=USER)
        before = names(restricted.store)
        eventually(lambda: names(cold / "store") == before and any((cold / "store/derived-v1").iterdir()))
        command = [Path(sys.executable).with_name("tetris"), "ls", "--store", cold / "store", "--format", "json"]
        listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        assert listed["manifests"]
        restricted.end()
        # As after a restart of the machine.
        shutil.rmtree(restricted.store)
        tetris.create_store(restricted.store)
        restricted.start()
        eventually(lambda: names(restricted.store) == before and any((restricted.store / "derived-v1").iterdir()))
        # The list of the files counts for this user, and the weights' digest for all.
        again = restricted.python("print(json.dumps(pulled()))", hub.url, user=USER)
        assert again == [["version", "sha256"], 0, 0, 1]
        known, new, *_ = restricted.python("print(json.dumps(pulled()))", hub.url, user=OTHER)
        assert (known, new) == (["reading", "sha256"], 0)
        # Freed objects come when the pull asks for them.
        for path in (restricted.store / "objects-v1").iterdir():
            if path.stat().st_size > 1_000_000:
                path.unlink()
        program = """
        report = tetris.pull("hf://org/m")
        print(json.dumps([report["bytes_fetched"], report["bytes_restored"]]))
        """
        fetched, back = restricted.python(program, hub.url, user=USER)
        assert fetched == 0
        assert back > 1_000_000
        assert names(restricted.store) == before
    finally:
        restricted.end()


def test_a_file_with_another_digest_is_known_by_no_name(restricted: Restricted, hub: Hub) -> None:
    promised, hub.sha256 = hub.sha256, "0" * 64
    message = restricted.python(FAILING, hub.url, user=USER)
    assert f"expected SHA-256 {'0' * 64}, found {promised}" in message
    hub.sha256 = promised
    known, *_ = restricted.python("print(json.dumps(pulled()))", hub.url, user=USER)
    assert known[1] == "reading"


def test_without_a_daemon_nothing_is_pulled(restricted: Restricted, hub: Hub) -> None:
    restricted.end()
    message = restricted.python(FAILING, hub.url, user=USER)
    assert "read-only here" in message and "start tetris-node" in message
    assert not objects(restricted.store)
