"""With any fault of the store the weights are loaded, and the log says so once."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import model_files
import pytest
import tetris
import tetris.numpy
import tetris.torch
import torch
from model_files import floats, settle, stored
from mounts import mounted
from process import contents, held, mappings, objects, python

SHAPE = [200, 500]
DATA = floats(SHAPE).data


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a large tensor and a small one."""
    return model_files.write(tmp_path / "file", {"large": floats(SHAPE), "small": stored("BF16", [3])})


def load_in_every_way(path: Path) -> None:
    """Assert that the right values come out."""
    for _ in range(2):
        assert tetris.torch.load_file(path)["large"].numpy().tobytes() == DATA
        assert tetris.torch.load_file(path, mode="read_only")["large"].numpy().tobytes() == DATA
        assert tetris.numpy.load_file(path)["large"].tobytes() == DATA
        assert memoryview(tetris.load(path)["large"]).tobytes() == DATA
        with tetris.safe_open(path, "pt") as opened:
            assert opened.get_slice("large")[3:5].numpy().tobytes() == DATA[3 * 2000 : 5 * 2000]
        module = torch.nn.Linear(500, 200, bias=False)
        safe = {"weight": tetris.torch.load_file(path)["large"]}
        module.load_state_dict(safe)
        report = tetris.torch.share_module_(module)
        assert report.bytes_shared + report.bytes_private == len(DATA)
        assert module.weight.detach().numpy().tobytes() == DATA
        doubled = tetris.derived(safe["weight"], "double", lambda tensor: tensor * 2)
        assert torch.equal(doubled, safe["weight"] * 2)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Messages to the user."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.split(".")[0] == "tetris" and record.levelno >= logging.WARNING
    ]


def test_without_a_store_everything_is_private_and_it_is_said_once(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TETRIS_STORE", str(tmp_path / "nowhere"))
    load_in_every_way(path)
    agent = tetris.agent()
    assert (agent.store, agent.objects_dir) == (None, None)
    assert agent.unavailable is not None and str(tmp_path / "nowhere") in agent.unavailable
    # Of weights that stay private it is said as well.
    assert len([said for said in warnings_of(caplog) if "nothing is shared" in said]) == 1
    model = tetris.load(path)
    assert model["large"].origin == "private" and model["large"].id is None
    assert model.report["private_reason"]
    assert agent.unavailable_cause == model.report["private_cause"] == "no-store"
    remedy = agent.unavailable_remedy
    assert remedy == model.report["private_remedy"] and remedy is not None
    # It names what there is in Python, and works.
    assert "tetris.create_store" in remedy and "--store" not in remedy
    assert model.report["bytes_private"] == len(DATA) + 6
    assert model.report["bytes_shared"] == model.report["bytes_new"] == 0
    counters = agent.counters
    assert counters["loads"] == counters["private_loads"] > 0
    assert counters["private_bytes"] > 0


@pytest.mark.parametrize("kind", ["file", "empty directory", "full directory", "dangling link", "relative"])
def test_what_is_no_store_is_not_used_and_not_touched(
    path: Path, empty_dir: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    named = empty_dir / "named"
    if kind == "file":
        named.write_bytes(b"x")
    elif kind == "dangling link":
        named.symlink_to("nowhere")
    elif kind == "relative":
        monkeypatch.chdir(empty_dir)
        named = Path("no/store")
    else:
        named.mkdir()
        if kind == "full directory":
            (named / "something").write_bytes(b"x")
    before = sorted(empty_dir.rglob("*"))
    monkeypatch.setenv("TETRIS_STORE", str(named))
    load_in_every_way(path)
    assert tetris.agent().store is None
    assert sorted(empty_dir.rglob("*")) == before
    with pytest.raises(tetris.StoreError):
        tetris.Agent(named)


@pytest.mark.parametrize("damage", ["zeros", "short", "version", "magic", "missing"])
def test_a_store_with_a_damaged_header_is_refused_and_loads_go_on(store: Path, path: Path, damage: str) -> None:
    header = store / "store"
    content = bytearray(header.read_bytes())
    os.chmod(header, 0o600)
    if damage == "zeros":
        header.write_bytes(bytes(len(content)))
    elif damage == "short":
        header.write_bytes(content[:10])
    elif damage == "version":
        content[8] = 99
        header.write_bytes(content)
    elif damage == "magic":
        header.write_bytes(b"X" + content[1:])
    else:
        header.unlink()
    with pytest.raises(tetris.StoreError):
        tetris.Agent(store)
    load_in_every_way(path)


def test_an_agent_that_was_asked_for_by_name_says_what_is_wrong(empty_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(tetris.NoStoreError):
        tetris.Agent(empty_dir / "nowhere")
    with pytest.raises(tetris.NotAStoreError):
        tetris.Agent(empty_dir)
    with pytest.raises(tetris.StoreError):
        tetris.create_store(empty_dir / "a" / "b" / "c" / "\0")
    (empty_dir / "full").mkdir()
    (empty_dir / "full" / "something").write_bytes(b"x")
    with pytest.raises(tetris.NotEmptyError):
        tetris.create_store(empty_dir / "full")
    if tmpfs(tmp_path):
        return
    with pytest.raises(tetris.NotTmpfsError):
        tetris.create_store(tmp_path / "disk")
    tetris.create_store(tmp_path / "disk", allow_other_file_systems=True)
    assert tetris.Agent(tmp_path / "disk").store is not None


def tmpfs(path: Path) -> bool:
    """Returns true if a path is on a tmpfs."""
    command = ["stat", "-f", "-c", "%T", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "tmpfs"


def test_creating_a_store_twice_keeps_it(store: Path, path: Path) -> None:
    tetris.torch.load_file(path)
    before = contents(store)
    with contextlib.suppress(tetris.StoreError):
        tetris.create_store(store)
    assert contents(store) == before and before


def test_a_store_of_another_user_is_used_if_it_is_named(store: Path, path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a store to another user")
    for one in [store, *store.rglob("*")]:
        os.chown(one, 65534, 65534)
    load_in_every_way(path)
    assert tetris.agent().store is not None and objects(store)


def test_another_user_reads_a_store_that_only_its_owner_writes(store: Path, path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    for one in [store, *store.rglob("*")]:
        one.chmod(0o755 if one.is_dir() else 0o644)
    tetris.torch.load_file(path)
    other = model_files.write(path.parent / "other", {"large": floats(SHAPE, 9)})
    program = """
        import json, os, sys
        import tetris.numpy
        known, unknown = (open(name, "rb") for name in sys.argv[1:])
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
        names = [f"/proc/self/fd/{file.fileno()}" for file in (known, unknown)]
        models = [tetris.load(name) for name in names]
        keys = ("bytes_shared", "bytes_new", "bytes_private", "private_reason")
        print(json.dumps([[*(model.report[key] for key in keys), model["large"].origin] for model in models]))
    """
    # The folders above are this user's alone.
    chain = [
        store.parent,
        *[parent for parent in path.parents if str(parent).startswith("/tmp/") and parent != Path("/tmp")],
    ]
    for folder in chain:
        folder.chmod(0o755)
    for file in (path, other):
        file.chmod(0o644)
    known, unknown = python(program, path, other)
    assert known[0] > 0 and known[1:4] == [0, 0, None] and known[4] == "shared"
    assert unknown[0] == unknown[1] == 0 and unknown[2] == len(DATA) and "read-only" in unknown[3]
    assert len(objects(store)) == 2


def test_a_store_that_is_removed_leaves_its_tensors_to_their_users(store: Path, path: Path) -> None:
    loaded = tetris.torch.load_file(path)
    view = loaded["large"][5]
    shutil.rmtree(store)
    assert loaded["large"].numpy().tobytes() == DATA
    loaded["large"][0] = 1
    assert view.numpy().tobytes() == DATA[5 * 2000 : 6 * 2000]
    load_in_every_way(path)
    # The agent of before still has it open; a new one finds that it is gone.
    assert tetris.Agent().store is None
    with pytest.raises(tetris.NoStoreError):
        tetris.Agent(store)


def test_a_store_that_is_made_anew_is_used_by_new_agents(store: Path, path: Path) -> None:
    tetris.torch.load_file(path)
    shutil.rmtree(store)
    tetris.create_store(store)
    tetris.Agent(store).load(path)
    assert len(objects(store)) == 2


@pytest.fixture
def small_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store with room for one or two megabytes."""
    directory = tmp_path / "small"
    directory.mkdir()
    with mounted(directory, "size=2m"):
        tetris.create_store(directory)
        monkeypatch.setenv("TETRIS_STORE", str(directory))
        yield directory


def test_what_a_full_store_cannot_take_is_private_and_says_why(
    small_store: Path, path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    big = model_files.write(tmp_path / "big", {str(i): floats([125_000], i) for i in range(12)})
    kept = tetris.torch.load_file(path)
    model = tetris.load(big)
    assert [memoryview(model[str(i)]).tobytes() == floats([125_000], i).data for i in range(12)] == [True] * 12
    report = model.report
    assert report["private_reason"] and report["bytes_private"] > 0
    assert report["bytes_private"] + report["bytes_new"] == 12 * 500_000
    assert {model[str(i)].origin for i in range(12)} <= {"private", "new"}
    assert tetris.agent().counters["private_loads"] == 1
    loaded = tetris.torch.load_file(big)
    assert loaded["11"].numpy().tobytes() == floats([125_000], 11).data
    loaded["11"].zero_()
    assert tetris.torch.load_file(big)["11"].numpy().tobytes() == floats([125_000], 11).data
    module = torch.nn.Linear(1000, 1000, bias=False)
    values = module.weight.detach().clone()
    shared = tetris.torch.share_module_(module)
    assert shared.private_reason and shared.bytes_private == 4_000_000 and shared.private_names == ["weight"]
    assert torch.equal(module.weight, values)
    derived = tetris.derived(values, "double", lambda tensor: tensor * 2)
    assert torch.equal(derived, values * 2)
    with pytest.raises(tetris.StoreFullError):
        tetris.agent().publish(bytes(4_000_000))
    assert kept["large"].numpy().tobytes() == DATA
    assert warnings_of(caplog)


def test_a_full_store_makes_room_of_what_nobody_uses(small_store: Path, tmp_path: Path) -> None:
    for number in range(6):
        path = model_files.write(tmp_path / f"{number}", {"t": floats([150_000], number)})
        loaded = tetris.torch.load_file(path)
        assert loaded["t"].numpy().tobytes() == floats([150_000], number).data
        assert mappings(small_store), number
        del loaded
        gc.collect()


def test_a_store_that_is_mounted_read_only_gives_and_takes_nothing(
    store: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount")
    tetris.torch.load_file(path)
    before = contents(store)
    view = tmp_path / "view"
    view.mkdir()
    for command in (["mount", "--bind", str(store), str(view)], ["mount", "-o", "remount,bind,ro", str(view)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"cannot be mounted here: {done.stderr.strip()}")
    try:
        monkeypatch.setenv("TETRIS_STORE", str(view))
        model = tetris.load(path)
        assert model["large"].origin == "shared" and model.report["bytes_private"] == 0
        assert tetris.torch.load_file(path)["large"].numpy().tobytes() == DATA
        new = model_files.write(tmp_path / "new", {"t": floats(SHAPE, 5)})
        report = tetris.load(new).report
        assert report["bytes_private"] == len(DATA) and "read-only" in report["private_reason"]
        with pytest.raises(tetris.ReadOnlyStoreError):
            tetris.agent().publish(b"bytes")
        load_in_every_way(path)
        del model
        gc.collect()
    finally:
        subprocess.run(["umount", "--lazy", str(view)], check=True)
    assert contents(store) == before


def test_a_damaged_object_is_not_used_if_it_can_be_seen(store: Path, path: Path) -> None:
    tetris.torch.load_file(path)
    gc.collect()
    [large] = [entry for entry in objects(store) if entry.stat().st_size >= len(DATA)]
    os.chmod(large, 0o600)
    os.truncate(large, 1000)
    assert tetris.torch.load_file(path)["large"].numpy().tobytes() == DATA
    with contextlib.suppress(tetris.Error):
        tetris.agent().attach(large.name)


@pytest.mark.parametrize("folder", ["manifests-v1", "identities-v1"])
@pytest.mark.parametrize("damage", ["zeros", "short", "empty", "directory"])
def test_a_damaged_record_is_found_out_and_the_file_is_read_again(
    store: Path, path: Path, folder: str, damage: str
) -> None:
    tetris.torch.load_file(path)
    for record in (store / folder).iterdir():
        content = record.read_bytes()
        record.unlink()
        if damage == "directory":
            record.mkdir()
        else:
            record.write_bytes({"zeros": bytes(len(content)), "short": content[:50], "empty": b""}[damage])
    load_in_every_way(path)


def test_a_forged_record_of_another_shape_is_not_believed(store: Path, path: Path, tmp_path: Path) -> None:
    other = model_files.write(tmp_path / "other", {"large": floats(SHAPE, 7), "small": stored("BF16", [3], 7)})
    settle(path)
    settle(other)
    tetris.torch.load_file(path)
    mine = {path.name: path.read_bytes() for path in (store / "identities-v1").iterdir()}
    tetris.torch.load_file(other)
    theirs = next(path for path in (store / "identities-v1").iterdir() if path.name not in mine)
    # The identity of one file under the name of the other's.
    for name in mine:
        (store / "identities-v1" / name).unlink()
        (store / "identities-v1" / name).write_bytes(theirs.read_bytes())
    load_in_every_way(path)


def test_the_store_can_be_changed_at_run_time(
    store: Path, path: Path, empty_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tetris.agent()
    assert first is tetris.agent()
    kept = tetris.torch.load_file(path)
    second = empty_dir / "second"
    tetris.create_store(second)
    monkeypatch.setenv("TETRIS_STORE", str(second))
    assert tetris.agent() is not first and str(second) in str(tetris.agent().store)
    tetris.torch.load_file(path)
    assert len(objects(second)) == len(objects(store)) == 2
    assert kept["large"].numpy().tobytes() == DATA
    monkeypatch.setenv("TETRIS_STORE", str(empty_dir / "none"))
    assert tetris.agent().store is None
    assert tetris.torch.load_file(path)["large"].numpy().tobytes() == DATA
    monkeypatch.setenv("TETRIS_STORE", str(store))
    assert str(tetris.agent().store) == str(store)


def test_an_empty_name_is_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TETRIS_STORE", "")
    unnamed = tetris.agent()
    monkeypatch.delenv("TETRIS_STORE")
    assert tetris.agent().store == unnamed.store


def report_of(path: Path, **options: Any) -> dict[str, Any]:
    """The report of a load."""
    return tetris.load(path, **options).report


def test_reports_say_what_was_new_shared_and_read(store: Path, path: Path, tmp_path: Path) -> None:
    settle(path)
    first = report_of(path)
    assert (first["tensors"], first["objects"], first["recognized"]) == (2, 2, ["hashing"])
    assert first["bytes_new"] >= len(DATA) + 6 and first["bytes_shared"] == first["bytes_private"] == 0
    assert first["bytes_read"] >= len(DATA) + 6 and first["private_reason"] is None and first["seconds"] > 0
    second = report_of(path)
    assert second["recognized"] == ["stat"]
    assert second["bytes_shared"] == first["bytes_new"] and second["bytes_new"] == second["bytes_read"] == 0
    copied = tmp_path / "copied"
    shutil.copyfile(path, copied)
    third = report_of(copied)
    assert (
        third["recognized"] == ["hashing"] and third["bytes_shared"] == first["bytes_new"] and third["bytes_new"] == 0
    )
    assert [tensor.origin for tensor in tetris.load(path).values()] == ["shared", "shared"]
    assert tetris.agent().counters == {
        "loads": 4,
        "private_loads": 0,
        "brokered_files": 0,
        "private_bytes": 0,
        "unshared_files": 0,
        "unshared_bytes": 0,
        "new_bytes": first["bytes_new"],
        "shared_bytes": 3 * first["bytes_new"],
        "other_file_bytes": first["bytes_new"],
    }


def test_progress_threads_and_waits_are_checked_and_told(store: Path, path: Path) -> None:
    told: list[tuple[int, int]] = []
    tetris.load(path, progress=lambda done, total: told.append((done, total)), threads=1, wait=0.5, prefault=True)
    assert told and told[-1][0] == told[-1][1] >= len(DATA)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    for options in (
        {"threads": 0},
        {"threads": -1},
        {"wait": -1},
        {"wait": float("nan")},
        {"wait": "x"},
        {"mode": "x"},
    ):
        with pytest.raises((ValueError, TypeError, OverflowError)):
            tetris.load(path, **options)


def test_a_callback_that_raises_does_not_end_the_load(store: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(done: int, total: int) -> None:
        raise KeyError("from the callback")

    unraisable: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: unraisable.append(info.exc_value))
    assert memoryview(tetris.load(path, progress=raising)["large"]).tobytes() == DATA
    assert unraisable and all(isinstance(error, KeyError) for error in unraisable)


def test_a_whole_file_is_kept_for_programs_that_map_it(store: Path, path: Path) -> None:
    shared = tetris.agent().share_file(path)
    assert shared.is_shared and Path(shared.path).read_bytes() == path.read_bytes()
    assert os.fspath(shared) == shared.path and str(store) in shared.path
    assert held(store) == [Path(shared.path)]
    if os.geteuid() != 0:
        with pytest.raises(PermissionError):
            open(shared.path, "r+b").close()
    del shared
    gc.collect()
    assert held(store) == []


def test_bytes_are_published_found_and_attached_by_name(store: Path) -> None:
    agent = tetris.agent()
    published = agent.publish(DATA)
    again = agent.publish(bytearray(DATA))
    assert (published.origin, again.origin, published.object) == ("new", "shared", again.object)
    attached = agent.attach(published.object, mode="copy_on_write")
    assert attached is not None and bytes(memoryview(attached)) == DATA
    memoryview(attached)[:4] = b"\0\0\0\0"
    assert bytes(memoryview(published)) == DATA
    for name in ("nonsense", "0" * 64 + "-00000000", "../store", "", "\0"):
        with contextlib.suppress(ValueError, tetris.Error):
            assert agent.attach(name) is None
    for data in ("text", 1, None, memoryview(DATA)[::2]):
        with pytest.raises((TypeError, BufferError)):
            agent.publish(data)
    assert bytes(memoryview(agent.publish(b""))) == b""


@pytest.mark.parametrize("offset", range(9))
def test_published_bytes_are_those_of_the_object_at_any_alignment(store: Path, offset: int) -> None:
    content = random.Random(offset).randbytes(100_000)
    for length in (0, 1, 7, 8, 9, 4097, 70_001):
        data = memoryview(bytearray(content))[offset : offset + length]
        assert bytes(memoryview(tetris.agent().publish(data))) == content[offset : offset + length]


def test_bytes_that_another_thread_writes_meanwhile_are_published_by_the_name_of_what_was_read(store: Path) -> None:
    data = bytearray(1 << 20)
    ended = threading.Event()

    def write() -> None:
        value = 0
        while not ended.is_set():
            value = 255 - value
            data[:] = bytes([value]) * len(data)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            published = tetris.agent().publish(data)
            # The object does not change any more, and has the name of its content.
            assert set(bytes(memoryview(published))) <= {0, 255}
            assert published.id in (None, tetris._native.content_id(bytes(memoryview(published))))
    finally:
        ended.set()
        writer.join()
