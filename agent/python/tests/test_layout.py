"""Layouts through torch."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import tetris
import torch
from tetris.torch import Layout, layout


def weights(seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(256, 256, generator=generator) for name in ("q", "k", "v")}


class Build:
    """A build that counts its runs."""

    def __init__(self, sources: dict[str, torch.Tensor]) -> None:
        self.sources, self.runs = sources, 0

    def __call__(self) -> Any:
        self.runs += 1
        qkv = torch.cat([self.sources[name] for name in "qkv"]).to(torch.bfloat16)
        return {
            "qkv": qkv,
            "tied": qkv,
            "k": qkv[256:512],
            "transposed": qkv.t(),
            "bias": torch.zeros(256),
            "other bias": torch.zeros(256),
            "scale": torch.tensor(0.5),
            "none": torch.empty(0, 4),
        }, {"kernel": b"\x00fused"}


def made(sources: dict[str, torch.Tensor], build: Any, **options: Any) -> Layout:
    return layout("fuse qkv", build, sources=sources, **options)


@pytest.fixture(autouse=True)
def _store(store: Path) -> None:
    """Every test has a separate store."""


def test_one_build_and_the_others_map_it() -> None:
    sources = weights()
    first, again = Build(sources), Build(sources)
    new, found = made(sources, first), made(sources, again)
    assert (new.origin, first.runs) == ("new", 1)
    assert (found.origin, again.runs) == ("shared", 0)
    expected, _ = Build(sources)()
    for result in (new, found):
        assert list(result.tensors) == list(expected)
        assert result.attributes == {"kernel": b"\x00fused"}
        for name, tensor in expected.items():
            one = result.tensors[name]
            assert (one.dtype, one.shape, one.stride()) == (tensor.dtype, tensor.shape, tensor.stride()), name
            assert torch.equal(one, tensor), name


def test_memory_is_shared_as_it_was_and_not_beyond() -> None:
    sources = weights()
    made(sources, Build(sources))
    tensors = made(sources, Build(sources)).tensors
    tensors["tied"][300, 0] = 7
    assert tensors["qkv"][300, 0] == tensors["k"][44, 0] == tensors["transposed"][0, 300] == 7
    tensors["bias"][0] = 1
    assert tensors["other bias"][0] == 0, "equal bytes are no alias"
    # No one else sees it.
    other = made(sources, Build(sources)).tensors
    assert other["qkv"][300, 0] != 7
    assert other["bias"][0] == 0


def test_the_key_has_all_that_the_result_depends_on() -> None:
    sources = weights()
    made(sources, Build(sources))
    changed = dict(sources, q=sources["k"], k=sources["q"])
    for options in ({"sources": changed}, {"version": 2}, {"conditions": {"cpu": "avx512"}}):
        build = Build(sources)
        layout("fuse qkv", build, **{"sources": sources, **options})
        assert build.runs == 1, options
    build = Build(sources)
    layout("split qkv", build, sources=sources)
    assert build.runs == 1


def test_what_fails_is_told_and_nothing_is_recorded() -> None:
    sources = weights()

    def broken() -> Any:
        raise RuntimeError("no kernel")

    with pytest.raises(RuntimeError, match="no kernel"):
        made(sources, broken)
    with pytest.raises(ValueError, match="'a' must be dense"):
        made(sources, lambda: {"a": torch.eye(3).to_sparse()})
    with pytest.raises(ValueError, match="without control characters"):
        made(sources, Build(sources), conditions={"cpu": "a\nb"})
    assert made(sources, Build(sources)).origin == "new"


def test_objects_that_are_gone_are_made_again(store: Path) -> None:
    sources = weights()
    made(sources, Build(sources))
    largest = max((store / "objects-v1").iterdir(), key=lambda path: path.stat().st_size)
    largest.unlink()
    build = Build(sources)
    assert made(sources, build).origin == "new"
    assert build.runs == 1
    assert made(sources, Build(sources)).origin == "shared"


def test_read_only_tensors_refuse_writes() -> None:
    sources = weights()
    tensors = made(sources, Build(sources), mode="read_only").tensors
    with pytest.raises(tetris.errors.ReadOnlyTensorError):
        tensors["qkv"].zero_()


def test_without_a_store_the_layout_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    script = textwrap.dedent(
        """
        import torch
        from tetris.torch import layout

        source = torch.ones(70000)
        made = layout("double", lambda: {"a": source * 2}, sources={"a": source})
        assert (made.origin, made.tensors["a"][0]) == ("private", 2), made
        """
    )
    monkeypatch.setenv("TETRIS_STORE", "/nonexistent")
    subprocess.run([sys.executable, "-c", script], check=True)


def test_processes_that_ask_at_once_build_once(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys, time
        import torch
        from tetris.torch import layout

        def build():
            with open(sys.argv[1], "a") as file:
                file.write("built\\n")
            time.sleep(1)
            return {"a": torch.full((100000,), 3.0)}

        found = layout("slow", build, sources={"a": torch.ones(10)})
        assert found.tensors["a"].sum() == 300000
        """
    )
    log = tmp_path / "log"
    workers = [subprocess.Popen([sys.executable, "-c", script, str(log)]) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert log.read_text() == "built\n"
