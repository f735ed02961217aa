"""How small a step is a search to look for, and how many processes may a candidate get for that?

Both follow from the range's own ends. They are measured until they are told apart; what was needed for that says what the
pieces of their step will need. It rests on the values that decided, so it stays the same when the ends get more.

Worked examples, the ends' step, the noise of a process, and at how many processes a side the ends were told apart:

    x 2.4 and 20 %      5: up to 20 processes a candidate, a step of 9 %, a tenth of the whole, and more
    7 % and 5 %        20: up to 80 processes, a step of 3.2 %
    8.7 % and 0.15 %    5: up to 20 processes, a step of 0.87 %, a tenth of the whole
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stepwatch.core.bisection.compare import compare, error, level, looks
from stepwatch.core.model import Better, Verdict

CAP, CAP_MAX = 16, 128
MIN_EFFECT = 0.04  # relative: what noise alone never makes the search coarser than
SHARE = 0.1  # of the whole step: what is smaller is not what the range is about
LEAST = 0.002


@dataclass(frozen=True, kw_only=True)
class Effort:
    """The smallest relative step that is looked for, and the most processes a candidate."""

    min_effect: float = MIN_EFFECT
    cap: int = CAP_MAX


def effort_for(good: Sequence[float], bad: Sequence[float], better: Better = Better.LOWER) -> Effort:
    """What a range is worth whose ends gave these values, one a process; until they are told apart, all that is allowed."""
    for look in looks(CAP_MAX):
        ends = good[:look], bad[:look]
        if min(map(len, ends)) < look:
            break
        said = compare(*ends, min_effect=MIN_EFFECT, cap=CAP_MAX, better=better)
        if said.verdict is Verdict.DIFFERENT:
            sides = [level(values, better) for values in ends]
            # of one process: the error of a difference is smaller by the roots of both sides' counts
            noise = error(sides) / math.sqrt(math.fsum(1 / len(side.kept) for side in sides))
            cap = min(CAP_MAX, max(CAP, 4 * look))
            seen = min(math.log1p(MIN_EFFECT), max(LEAST, 4 * noise * math.sqrt(2 / cap)))
            whole = abs(sides[1].log - sides[0].log)
            return Effort(min_effect=math.expm1(max(SHARE * whole, seen)), cap=cap)
    return Effort()
