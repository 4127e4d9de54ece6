"""A file is never taken for another, whatever `stat` says of it."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import model_files
import pytest
import tetris
import tetris.numpy
import tetris.torch
from model_files import Stored

SHAPE = [500, 1000]


def content(seed: int) -> bytes:
    """The bytes of the tensor."""
    return bytes([seed]) * (4 * SHAPE[0] * SHAPE[1])


def write(path: Path, seed: int) -> Path:
    """Write a file of one tensor, larger than what is compared whole."""
    return model_files.write(path, {"weight": Stored("F32", SHAPE, content(seed))})


def opened(path: Path) -> bytes:
    with tetris.safe_open(path, "pt") as file:
        return file.get_tensor("weight").numpy().tobytes()


WAYS: dict[str, Callable[[Path], bytes]] = {
    "torch": lambda path: tetris.torch.load_file(path)["weight"].numpy().tobytes(),
    "numpy": lambda path: tetris.numpy.load_file(path)["weight"].tobytes(),
    "safe_open": opened,
    "load": lambda path: memoryview(tetris.load(path)["weight"]).tobytes(),
}


def stamps(path: Path) -> tuple[int, ...]:
    """Facts that tell a file from others, beside its file system."""
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def known(path: Path) -> None:
    """Load until the file is recognized: one that was just written is not."""
    deadline = time.monotonic() + 60
    while tetris.load(path).report["recognized"] != ["stat"]:
        assert time.monotonic() < deadline


@pytest.mark.parametrize("way", WAYS)
def test_content_that_changed_without_a_stamp_is_noticed(way: str, store: Path, empty_dir: Path) -> None:
    path = write(empty_dir / "model.safetensors", 1)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        # Only the first write to a page of the mapping is a fault, and gives the file a time.
        mapped[-len(content(1)) :] = content(1)
        known(path)
        before = stamps(path)
        mapped[-len(content(2)) :] = content(2)
    assert stamps(path) == before
    assert WAYS[way](path) == content(2)
    assert WAYS[way](path) == content(2)


@pytest.mark.parametrize("way", WAYS)
def test_squashfs_images_with_equal_times_on_one_device_are_two_files(way: str, store: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount images")
    for tool in ("mksquashfs", "losetup"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool} (tests/tools.sh)")
    place = tmp_path / "place"
    place.mkdir()

    def run(*command: object) -> str:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    images = []
    for seed in (1, 2):
        tree = tmp_path / f"tree-{seed}"
        tree.mkdir()
        write(tree / "model.safetensors", seed)
        image = tmp_path / f"image-{seed}"
        run("mksquashfs", tree, image, "-all-time", 0, "-mkfs-time", 0, "-noappend", "-no-progress")
        images.append(image)
    try:
        device = run("losetup", "--find", "--show", images[0])
    except AssertionError as error:
        pytest.skip(f"there are no loop devices here: {error}")
    found = []
    try:
        for seed, image in zip((1, 2), images, strict=True):
            run("losetup", "--detach", device)
            run("losetup", device, image)
            run("mount", "-t", "squashfs", "-o", "ro", device, place)
            try:
                path = place / "model.safetensors"
                found.append(stamps(path))
                assert WAYS[way](path) == content(seed)
            finally:
                run("umount", place)
    finally:
        subprocess.run(["losetup", "--detach", device], check=False)
    assert found[0] == found[1], "nothing was tested"
