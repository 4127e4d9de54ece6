"""Cost of recording the order of first uses, of one inference.

The recording watches calls of modules, and functions of torch that take a tensor which has not been used yet. Its cost
is the time of the watched inference, with the start and the end of the recording, over that of the same inference
without it; both take turns. A module without bytes (on torch's meta device) shows the cost alone: its functions compute
nothing.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from . import machine, stats
from .command_line import count, parser, require
from .engines.models import VOCABULARY, Shape
from .text import prose

LIMIT = 0.012
"""Most of an inference that a recording may cost: TIDAL (arXiv:2503.06421), 7.4, "less than 1.2 %"."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns 1 if a recording costs more than the limit."""
    command = _parser()
    options = command.parse_args(arguments)
    require(command, "torch")
    import torch

    from .engines.programs.decoder import Decoder, made
    from .tracing_work import measure

    torch.set_num_threads(options.threads)
    shape = Shape.of(options.layers, options.width)
    tokens = (torch.arange(options.tokens) * 7 % VOCABULARY).unsqueeze(0)
    with torch.inference_mode():
        module, empty = Decoder(shape, fused=False).eval().requires_grad_(False), made(shape, fused=False)
        found = measure(module, tokens, options.rounds)
        alone = measure(empty, tokens.to("meta"), options.rounds * 5)
    cost_s = (stats.median(alone["watched_s"]) or 0.0) - (stats.median(alone["plain_s"]) or 0.0)
    plain_s = stats.median(found["plain_s"]) or 0.0
    ratio = stats.ratio(found["watched_s"], found["plain_s"])
    report: dict[str, Any] = {
        "machine": machine.inspect(),
        "torch": torch.__version__,
        "options": vars(options),
        "tensors": len(list(module.parameters())),
        "plain_s": plain_s,
        "watched_over_plain": None if ratio is None else [ratio.value, ratio.low, ratio.high],
        "cost_s": cost_s,
        "cost_of_inference": cost_s / plain_s,
        "limit": LIMIT,
        "samples": {"inference": found, "meta": alone},
    }
    if options.format == "json":
        print(json.dumps(report, indent=1))
    else:
        _show(report)
    return 0 if report["cost_of_inference"] <= LIMIT else 1


def _show(report: dict[str, Any]) -> None:
    options = report["options"]
    print(prose(machine.line(report["machine"])))
    print(f"torch {report['torch']}, {options['threads']} thread(s), {report['tensors']} tensors")
    print(f"inference of {options['tokens']} tokens: {report['plain_s'] * 1e3:.1f} ms")
    value, low, high = report["watched_over_plain"]
    print(f"recorded over plain: {value:.4f}, middle half {low:.4f} to {high:.4f}")
    verdict = "yes" if report["cost_of_inference"] <= LIMIT else "NO"
    print(
        prose(
            f"cost of a recording, on the meta device: {report['cost_s'] * 1e3:.2f} ms, "
            f"{report['cost_of_inference']:.3%} of the inference; at most {LIMIT:.1%}: {verdict}"
        )
    )
    print(f"shortest inference of which it is {LIMIT:.1%}: {report['cost_s'] / LIMIT * 1e3:.0f} ms")


def _parser() -> argparse.ArgumentParser:
    options = parser(
        "tetris_bench.tracing",
        "Measure the cost of recording the order of first uses: the time of an inference that is recorded, over that "
        "of the same inference without the recording, by turns. A module without bytes (on torch's meta device) shows "
        "the cost alone. Ends with code 1 if a recording costs more than the limit.",
    )
    add = options.add_argument
    for option, default, about in (
        ("--layers", 16, "layers of the decoder"),
        ("--width", 1024, "width of the decoder, a multiple of 128 elements"),
        ("--tokens", 512, "length of the input in tokens"),
        ("--rounds", 11, "rounds of timing"),
        ("--threads", 1, "threads of torch"),
    ):
        add(option, type=count, default=default, metavar="N", help=f"{about} [default: %(default)s]")
    add("--format", choices=("text", "json"), default="text", help="format of the report [default: %(default)s]")
    return options


if __name__ == "__main__":
    sys.exit(main())
