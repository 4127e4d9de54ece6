"""Medians, ratios and how sure they are."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """A ratio of medians, with the middle half of the ratios within the rounds."""

    value: float
    low: float
    high: float


def median(samples: Sequence[float]) -> float | None:
    """The median; None without samples."""
    return statistics.median(samples) if samples else None


def quartiles(samples: Sequence[float]) -> tuple[float, float]:
    """First and third quartile."""
    if len(samples) < 2:
        return (samples[0], samples[0])
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    return (first, third)


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
    """Ratio of the medians of samples that were taken in the same rounds; None without samples."""
    paired = [a / b for a, b in zip(ours, theirs, strict=False) if b > 0]
    if not paired:
        return None
    return Ratio(statistics.median(ours) / statistics.median(theirs), *quartiles(paired))


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """The interval that holds the true median in 95 of 100 cases, from the order of the samples alone."""
    ordered = sorted(samples)
    count = len(ordered)
    tail, least = 0.0, -1
    # Largest number of samples that may be left out at each end.
    while least + 1 < count // 2:
        tail += math.comb(count, least + 1) / 2**count
        if tail > 0.025:
            break
        least += 1
    least = max(least, 0)
    return (ordered[least], ordered[count - 1 - least])
