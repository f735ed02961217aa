"""What can people be told about a regression?"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from stepwatch.core.model import Regression, SuspectRange


class Telling(enum.StrEnum):
    """What people are told about a regression, each at most once."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    DRIFT = "drift"
    PARTLY_RECOVERED = "partly_recovered"
    RECOVERED = "recovered"
    RETRACTED = "retracted"
    WAY_BACK = "way_back"


# what opens an incident
RAISING = frozenset({Telling.REGRESSION, Telling.IMPROVEMENT, Telling.DRIFT})


@dataclass(frozen=True, kw_only=True)
class Saying:
    """One thing to be told tonight.

    `suspect`, `before` and `after` (levels in the unit) are those of the step that is the reason: for a recovery the
    way back. `suspect` is None where no step is: a level that is back, or a step that is gone, without one.
    `remaining` = present level / baseline - 1.
    """

    kind: Telling
    regression: Regression
    suspect: SuspectRange | None
    before: float
    after: float
    remaining: float


def remaining(present: float, baseline: float) -> float:
    """What a count has above a baseline of zero is without measure."""
    return present / baseline - 1 if baseline else (math.inf if present else 0.0)
