"""Prefixes of models that stay on a device, as the environment asks for them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import tetris.gpu
from gpu_mirror import MIB, Mirror, eventually
from model_files import stored, write
from process import run
from tetris._device import template
from tetris._device.template import VARIABLE, wanted

torch = pytest.importorskip("torch")

import tetris.torch


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file of 6 MiB."""
    tensors = {f"layer.{at}": stored("U8", [MIB], seed=at) for at in range(6)}
    return write(tmp_path / "model.safetensors", tensors, {"format": "pt"})


@pytest.fixture(autouse=True)
def _nothing_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "_asked", set())


@pytest.mark.parametrize(
    ("text", "seconds"), [("1", None), ("on", None), ("250ms", 0.25), (" 1.5S ", 1.5), ("3600s", 3600.0)]
)
def test_what_can_be_asked_for(text: str, seconds: float | None) -> None:
    assert wanted(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("text", ["", "0", "off", " no "])
def test_nothing_is_asked_for(text: str) -> None:
    assert wanted(text) is False


@pytest.mark.parametrize("text", ["250", "0s", "-1s", "infs", "nans", "1e3s", "1_0s", "1.2.3s", "s", "ms", "3601s"])
def test_other_values_are_told(text: str) -> None:
    with pytest.raises(ValueError, match=f"{VARIABLE} has no effect: expected one of"):
        wanted(text)


def loaded(path: Path, device: str = "simulated") -> None:
    tensors = tetris.torch.load_file(path, device=device)
    assert tensors["layer.3"].numpy().tobytes() == stored("U8", [MIB], seed=3).data


def test_every_load_asks_once(mirror: Mirror, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def keep(path: Any, device: str, *, ttft: float | None, order: Any) -> tuple[int, int]:
        asked.append((path, device, ttft, order))
        return 0, 0

    monkeypatch.setattr(tetris.gpu, "keep_prefix", keep)
    loaded(model)
    monkeypatch.setenv(VARIABLE, "300ms")
    loaded(model)
    loaded(model)
    eventually("the mirror is asked", lambda: len(asked) > 0)
    assert asked == [(str(model), "simulated", pytest.approx(0.3), None)]


def test_the_prefix_stays_without_its_process(mirror: Mirror, model: Path, tmp_path: Path) -> None:
    program = """
        import logging, sys, threading
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
        from tetris.torch import load_file
        tensors = load_file(sys.argv[1], device="simulated")
        [thread.join() for thread in threading.enumerate() if thread.name == "tetris-template"]
    """
    done = run(program, model, env={VARIABLE: "1ms"})
    # Of an unknown bandwidth all of it is kept, as far as the budget goes.
    assert f"keeps {6 * MIB} bytes" in done.stdout, done
    other = write(tmp_path / "other.safetensors", {"w": stored("U8", [57 * MIB], seed=9)}, {"format": "pt"})
    with tetris.gpu.prefetch(other) as held:
        held.wait(60)
    with tetris.gpu.prefetch(model) as held:
        held.wait(60)
        (found,) = [model for model in tetris.gpu.status()["models"] if model["model"] == held.model]
    assert found["state"] == "resident"


def test_a_refusal_is_told_and_the_load_goes_on(
    mirror: Mirror, model: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def keep(*_: Any, **__: Any) -> tuple[int, int]:
        raise tetris.GpuUnavailableError("there is no room")

    monkeypatch.setattr(tetris.gpu, "keep_prefix", keep)
    monkeypatch.setenv(VARIABLE, "on")
    with caplog.at_level(logging.WARNING, "tetris"):
        loaded(model)
        eventually("the log says why", lambda: "there is no room" in caplog.text)
    assert "keeps no prefix of" in caplog.text
