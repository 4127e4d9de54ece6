"""The model of these examples: 64 features in, scores of 16 labels out, 34 MB of weights.

As a program, it writes one with random weights::

    python classifier.py classifier.safetensors
"""

from __future__ import annotations

import os
import sys

import tetris.torch
import torch
from torch import nn

FEATURES, HIDDEN, LABELS = 64, 2048, 16


def build() -> nn.Sequential:
    """Return the model, initialized at random."""
    return nn.Sequential(
        nn.Linear(FEATURES, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, LABELS),
        nn.Softmax(dim=-1),
    )


def load(path: str) -> nn.Sequential:
    """Return the model with the weights of a file, which all processes of the node share."""
    with torch.device("meta"):  # no memory for weights that are about to be replaced
        model = build()
    model.load_state_dict(tetris.torch.load_file(path), assign=True)
    return model.eval().requires_grad_(False)


def answer(model: nn.Sequential, features: list[float]) -> dict[str, object]:
    """Return the scores, and the process that computed them."""
    with torch.inference_mode():
        scores = model(torch.tensor(features, dtype=torch.float32))
    return {"pid": os.getpid(), "scores": scores.tolist()}


if __name__ == "__main__":
    tetris.torch.save_file(build().state_dict(), sys.argv[1])
