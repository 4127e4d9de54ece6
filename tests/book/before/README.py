# ruff: noqa: F401
import tetris
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(4 << 20))


model, other = Model(), Model()
