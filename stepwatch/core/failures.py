"""Since when does a benchmark give no result, and is that worth telling?

A stretch begins after the last night with a result and ends with the next one. It counts nights on which the benchmark
itself failed: it crashed, hung, gave a wrong result, or was skipped; a night that was not measured at all says nothing. It is
told at its second night. Worked example, x a failure, - a gap:

    1.0  1.1  x  1.0  x  -  x  x    one night that failed, forgotten; then a stretch, told at the seventh night
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepwatch.core.model import Outcome, Point, SuspectRange

FAILED = frozenset({Outcome.BENCHMARK_FAILED, Outcome.TIMED_OUT, Outcome.WRONG_RESULT, Outcome.SKIPPED})
NIGHTS_TOLD = 2


@dataclass(frozen=True, kw_only=True)
class Failing:
    """A stretch without a result; `over` is the first night with one after it, None while it lasts."""

    suspect: SuspectRange
    outcome: Outcome
    nights: int
    over: str | None = None

    @property
    def is_told(self) -> bool:
        """Whether it lasted long enough to be told."""
        return self.nights >= NIGHTS_TOLD


def failing(points: Sequence[Point]) -> list[Failing]:
    """The stretches of a series, in order; a benchmark that has never given a result fails nobody."""
    found: list[Failing] = []
    last: str | None = None
    nights: list[Point] = []

    def end(over: str | None) -> None:
        if nights and last is not None and nights[0].outcome is not None:
            suspect = SuspectRange(after=last, through=nights[0].label)
            found.append(Failing(suspect=suspect, outcome=nights[0].outcome, nights=len(nights), over=over))

    for point in points:
        if point.value is not None:
            end(point.label)
            last, nights = point.label, []
        elif point.outcome in FAILED:
            nights.append(point)
    end(None)
    return found
