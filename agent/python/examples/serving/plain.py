"""The model of these servers, as any program loads one: they differ in nothing else from servers without Tetris.

It is that of ``../classifier.py``, which writes its file.
"""

from __future__ import annotations

import os

import torch
from safetensors.torch import load_file
from torch import nn

FEATURES, HIDDEN, LABELS = 64, 2048, 16


def load() -> nn.Sequential:
    """Return the model with the weights of the file that ``MODEL`` names."""
    torch.set_num_threads(1)  # each worker is one of many
    with torch.device("meta"):
        layers = [nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU()]
        layers += [nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, LABELS), nn.Softmax(dim=-1)]
        model = nn.Sequential(*layers)
    model.load_state_dict(load_file(os.environ["MODEL"]), assign=True)
    return model.eval().requires_grad_(False)


def scores(model: nn.Sequential, features: list[float]) -> list[float]:
    """Return the scores of the labels."""
    with torch.inference_mode():
        return model(torch.tensor(features, dtype=torch.float32)).tolist()
