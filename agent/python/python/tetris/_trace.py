"""Traces of a model: the tensors that its runs use first, and the tensors that differ between initializations.

Pure: no files, no torch. :mod:`tetris._order` reads and writes traces, :mod:`tetris._trace_record` records them. After
TIDAL (arXiv:2503.06421), 4.1: inference is traced for the order of first uses, initialization for the origin of each
weight, and weights that are not the same in all initializations are dynamic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: Rank of a tensor that a run did not use: after all tensors that it did use.
LAST = 1 << 16
#: Runs that one trace counts. Later runs are left out, so that sums stay exact in JSON.
MAX_RUNS = 1 << 20


@dataclass(frozen=True)
class Use:
    """First uses of one tensor, over all runs of a phase."""

    #: Sum of its ranks in the runs that used it, each from 0 (first) to below :data:`LAST`.
    rank_sum: int
    #: Number of runs that used it.
    runs: int
    #: Lowest number of a stream that used it first. Streams are numbered from 0 in the order of their appearance.
    stream: int = 0

    def __add__(self, other: Use) -> Use:
        return Use(self.rank_sum + other.rank_sum, self.runs + other.runs, min(self.stream, other.stream))


@dataclass(frozen=True)
class Phase:
    """All recorded runs of one phase: of inference, or of initialization."""

    runs: int = 0
    uses: Mapping[str, Use] = field(default_factory=dict)

    @staticmethod
    def of(names: Iterable[str], streams: Mapping[str, int] | None = None) -> Phase:
        """Return the phase of one run that used tensors first in this order."""
        ordered = list(dict.fromkeys(names))
        numbers = streams or {}
        uses = {name: Use(index * LAST // len(ordered), 1, numbers.get(name, 0)) for index, name in enumerate(ordered)}
        return Phase(1, uses)

    def __add__(self, other: Phase) -> Phase:
        uses = dict(self.uses)
        for name, use in other.uses.items():
            uses[name] = uses[name] + use if name in uses else use
        return Phase(self.runs + other.runs, uses)

    def order(self) -> list[str]:
        """Return the tensors in the order of their mean rank. A run that did not use a tensor counts as its last."""

        def key(name: str) -> tuple[int, str]:
            use = self.uses[name]
            return use.rank_sum + (self.runs - use.runs) * LAST, name

        return sorted(self.uses, key=key)


@dataclass(frozen=True)
class Origins:
    """Contents of a module's tensors after initialization, over all recorded initializations."""

    runs: int = 0
    #: Content ids of the tensors that were the same in all of them.
    same: Mapping[str, str] = field(default_factory=dict)
    #: Tensors with other bytes, or none, in at least one of them.
    dynamic: frozenset[str] = frozenset()

    @staticmethod
    def of(contents: Mapping[str, str]) -> Origins:
        """Return the origins of one initialization: content ids by name."""
        return Origins(1, dict(contents))

    def __add__(self, other: Origins) -> Origins:
        if self.runs == 0 or other.runs == 0:
            return other if self.runs == 0 else self
        same = {name: id for name, id in self.same.items() if other.same.get(name) == id}
        names = self.same.keys() | other.same.keys() | self.dynamic | other.dynamic
        return Origins(self.runs + other.runs, same, frozenset(names - same.keys()))


@dataclass(frozen=True)
class Trace:
    """The merged runs of one model. Merging is commutative and associative."""

    #: Content ids of the model's files; empty if the store does not know them.
    models: frozenset[str] = frozenset()
    inference: Phase = Phase()
    initialization: Phase = Phase()
    origins: Origins = Origins()

    def __add__(self, other: Trace) -> Trace:
        return Trace(
            self.models | other.models,
            self.inference + other.inference,
            self.initialization + other.initialization,
            self.origins + other.origins,
        )

    def is_full(self) -> bool:
        """Return true if no further run is counted."""
        return max(self.inference.runs, self.initialization.runs, self.origins.runs) >= MAX_RUNS

    def order(self) -> list[str]:
        """Return the tensors in the order in which a load needs them.

        First the tensors that initialization needs by itself, because it makes others of them or writes to them; then
        those of inference. Initializations that copy all weights say nothing of an order.
        """
        inference = self.inference.order()
        used = set(inference)
        own = [name for name in self.initialization.order() if name not in used or name in self.origins.dynamic]
        return list(dict.fromkeys([*own, *inference]))
