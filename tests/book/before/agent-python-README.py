# ruff: noqa: F401
import numpy
import tetris
import tetris.torch
import torch
from tetris.torch import load_file


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(2048, 2048))


model, module, other = Model(), Model(), Model()
state = Model().state_dict()


weights = load_file("model.safetensors")
weight = weights["weight"]


def fused(weights):
    return {"weight": weights["weight"] * 2}
