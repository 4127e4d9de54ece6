"""Actors of Ray: each loads the model by its path, instead of getting the weights from Ray's object store.

python ray_actors.py classifier.safetensors < features.jsonl
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys

import classifier
import ray
import torch


@ray.remote(num_cpus=0)
class Classifier:
    """An actor. Weights that came by ``ray.put`` would have to be sent, and be on every node twice."""

    def __init__(self, path: str) -> None:
        torch.set_num_threads(1)  # each actor is one of many
        self._model = classifier.load(path)

    def classify(self, features: list[float]) -> dict[str, object]:
        """Return the scores of the labels."""
        return classifier.answer(self._model, features)


def main() -> None:
    """Print one answer per line of the input; the actors take turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a safetensors file, as classifier.py writes it")
    parser.add_argument("--actors", type=int, default=4)
    arguments = parser.parse_args()
    # Actors on this machine inherit TETRIS_STORE. On a cluster, set it where `ray start` runs.
    ray.init(include_dashboard=False, log_to_driver=False)
    actors = [Classifier.remote(arguments.model) for _ in range(arguments.actors)]
    for actor, line in zip(itertools.cycle(actors), sys.stdin):
        print(json.dumps(ray.get(actor.classify.remote(json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
