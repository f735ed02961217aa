"""Which nights of a series have a result, and between which of their labels does a step lie?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepwatch.core.detection import Detection
from stepwatch.core.model import Point, Step, SuspectRange


@dataclass(frozen=True, kw_only=True)
class Results:
    """The nights with a result, and where each label stands among them."""

    labels: tuple[str, ...]
    values: tuple[float, ...]
    spreads: tuple[float, ...]  # what the processes of each result disagreed by; 0 where that is not known
    places: dict[str, int]  # of every night: how many results are before it
    tonight: str  # the last one with a result

    def bracket(self, detection: Detection, step: Step) -> SuspectRange:
        """(last night on the old level, first on the new]; odd nights between are in neither level's name."""
        start = max(s.start for s in detection.segments if s.start < step.index)
        on = [j for j in range(start, step.index) if j not in detection.odd]
        return SuspectRange(
            after=self.labels[on[-1] if on else step.index - 1], through=self.labels[step.index]
        )


def collect_results(points: Sequence[Point]) -> Results:
    """The results among `points`, nights in order. ValueError: two points have one label."""
    places: dict[str, int] = {}
    results: list[tuple[str, float, float]] = []
    for point in points:
        if point.label in places:
            raise ValueError(f"two points have the label {point.label}")
        places[point.label] = len(results)
        if point.value is not None:
            results.append((point.label, point.value, point.spread or 0.0))
    return Results(
        labels=tuple(label for label, _, _ in results),
        values=tuple(value for _, value, _ in results),
        spreads=tuple(spread for _, _, spread in results),
        places=places,
        tonight=results[-1][0] if results else "",
    )
