"""A pool of worker processes, spawned or forked, that classify the lines of the standard input.

python multiprocessing_pool.py classifier.safetensors --start-method spawn < features.jsonl
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys

import classifier
import torch

_model: torch.nn.Module | None = None


def initialize(path: str) -> None:
    """Load the model, in a worker: the first to come publishes it, the others find it in the store."""
    global _model
    torch.set_num_threads(1)  # each worker is one of many
    _model = classifier.load(path)


def classify(line: str) -> dict[str, object]:
    """Return the scores for one line, ``[0.5, ...]``."""
    assert _model is not None
    return classifier.answer(_model, json.loads(line))


def main() -> None:
    """Print one answer per line of the input, in its order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a safetensors file, as classifier.py writes it")
    parser.add_argument("--start-method", choices=["spawn", "fork", "forkserver"], default="spawn")
    parser.add_argument("--workers", type=int, default=4)
    arguments = parser.parse_args()
    # A forked worker has only the thread that forked: this process must not compute with torch before, or only
    # after torch.set_num_threads(1).
    context = multiprocessing.get_context(arguments.start_method)
    with context.Pool(arguments.workers, initialize, (arguments.model,)) as pool:
        for answer in pool.imap(classify, sys.stdin):
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
