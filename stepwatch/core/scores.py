"""How good are a detector's answers?

Alerts and true steps are paired nearest first; an alert that is left over is false, or, near a step that is taken,
a double. Boundaries that the labeller left open count neither way, and of a series that nobody has looked through
only those that somebody has called wrong are false.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepwatch.core.labels import Labelled

FIRST = 12  # nights that a peer sees before it is asked
HELD = 4  # results on the new level before a peer's boundary counts as an alert
NEAR = 2  # results by which an answer may be off
MAYBE = 3  # results around a boundary that the labeller left open: not counted either way


@dataclass(frozen=True, kw_only=True)
class Night:
    """What a detector said of one series, night by night: (place, night) of each alert, and how many went away."""

    alerts: list[tuple[int, int]]
    flips: int


@dataclass(kw_only=True)
class Score:
    """Counts over some series."""

    hits: int = 0
    false: int = 0
    missed: int = 0
    doubles: int = 0
    flips: int = 0
    nights: int = 0
    delays: list[int] = field(default_factory=list)

    @property
    def precision(self) -> float:
        """Hits among what was said and counts; 1 where nothing was said."""
        said = self.hits + self.false
        return self.hits / said if said else 1.0

    @property
    def recall(self) -> float:
        """Hits among the true steps; 1 where there are none."""
        true = self.hits + self.missed
        return self.hits / true if true else 1.0

    @property
    def f1(self) -> float:
        """2 hits / (2 hits + false + missed); 1 where there was nothing to find and nothing found."""
        counted = 2 * self.hits + self.false + self.missed
        return 2 * self.hits / counted if counted else 1.0

    def rate(self, count: int) -> float:
        """`count` for 1000 series-nights."""
        return 1000 * count / self.nights

    def delay(self, quantile: float) -> float:
        """A quantile of the results between the first on a new level and the alert."""
        return float(np.quantile(self.delays, quantile)) if self.delays else float("nan")


def score(series: Sequence[Labelled], nights: Sequence[Night], near: int = NEAR) -> Score:
    """The counts over `series`, of which `nights` are the answers."""
    total = Score()
    for one, night in zip(series, nights, strict=True):
        pairs = sorted(
            (abs(place - true), i, true)
            for i, (place, _) in enumerate(night.alerts)
            for true in one.truth
            if abs(place - true) <= near
        )
        paired: dict[int, int] = {}
        for _, i, true in pairs:
            if i not in paired and true not in paired.values():
                paired[i] = true
        total.hits += len(paired)
        total.missed += len(one.truth) - len(paired)
        total.flips += night.flips
        total.nights += len(one.values)
        for i, (place, on) in enumerate(night.alerts):
            if i in paired:
                total.delays.append(on - paired[i])
            elif any(abs(place - true) <= near for true in one.truth):
                total.doubles += all(abs(place - maybe) > MAYBE for maybe in one.maybe)
            elif one.wrong is not None:
                total.false += any(abs(place - wrong) <= near for wrong in one.wrong)
            else:
                total.false += all(abs(place - maybe) > MAYBE for maybe in one.maybe)
    return total


def whole(series: Sequence[Labelled], answers: Sequence[Sequence[int]], near: int = NEAR) -> Score:
    """The same of whole series, where a double is as false as any other."""
    total = score(series, [Night(alerts=[(p, p) for p in places], flips=0) for places in answers], near)
    total.false += total.doubles
    return total


def interval(series: Sequence[Labelled], answers: Sequence[Sequence[int]]) -> str:
    """Where F1 lies in 90 % of 1000 draws of as many series."""
    alone = [whole([s], [a]) for s, a in zip(series, answers, strict=True)]
    random = np.random.default_rng(0)
    figures = []
    for _ in range(1000):
        drawn = [alone[i] for i in random.integers(0, len(alone), len(alone))]
        figures.append(
            Score(
                hits=sum(s.hits for s in drawn),
                false=sum(s.false for s in drawn),
                missed=sum(s.missed for s in drawn),
            ).f1
        )
    low, high = np.quantile(figures, [0.05, 0.95])
    return f"{low:.2f} to {high:.2f}"


def held(answers: Iterable[list[int]]) -> Night:
    """A peer's: a boundary becomes an alert when `HELD` results are behind it, is followed, and may go away."""
    alerts: list[list[int]] = []  # where first, night, where now
    gone: set[int] = set()
    flips = 0
    for n, places in enumerate(answers, start=FIRST):
        for i, alert in enumerate(alerts):
            near = [place for place in places if abs(place - alert[2]) <= NEAR]
            if near:
                alert[2] = min(near, key=lambda place: abs(place - alert[2]))
                gone.discard(i)
            elif i not in gone:
                gone.add(i)
                flips += 1
        alerts += [
            [place, n - 1, place]
            for place in places
            if n - place >= HELD and all(min(abs(place - a[0]), abs(place - a[2])) > NEAR for a in alerts)
        ]
    return Night(alerts=[(place, night) for place, night, _ in alerts], flips=flips)
