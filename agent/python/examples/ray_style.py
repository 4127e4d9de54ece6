"""Actors, as Ray has them, without Ray: independent processes that load the model by its path and answer calls.

python ray_style.py classifier.safetensors < features.jsonl
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import sys
from multiprocessing.connection import Connection

import classifier
import torch


class Classifier:
    """Code of each actor."""

    def __init__(self, path: str) -> None:
        torch.set_num_threads(1)  # each actor is one of many
        self._model = classifier.load(path)

    def classify(self, features: list[float]) -> dict[str, object]:
        """Return the scores of the labels."""
        return classifier.answer(self._model, features)


def serve(path: str, calls: Connection) -> None:
    """Answer calls until the driver has gone."""
    actor = Classifier(path)
    while True:
        try:
            calls.send(actor.classify(calls.recv()))
        except (EOFError, BrokenPipeError):
            return


def main() -> None:
    """Print one answer per line of the input; the actors take turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a safetensors file, as classifier.py writes it")
    parser.add_argument("--actors", type=int, default=4)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    actors = []
    for _ in range(arguments.actors):
        here, there = context.Pipe()
        context.Process(target=serve, args=(arguments.model, there)).start()
        there.close()  # so that the actor's end is the only one, and each sees when the other has gone
        actors.append(here)
    for actor, line in zip(itertools.cycle(actors), sys.stdin):
        actor.send(json.loads(line))
        print(json.dumps(actor.recv()), flush=True)


if __name__ == "__main__":
    main()
