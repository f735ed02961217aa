"""Does the detector itself behave oddly? Each question is answered with a sentence, or None where all is well.

no data       nothing was measured on a machine for 26 hours, where something was measured before
one-sided     of its last 50 steps at most 10 are improvements: programs get faster about as often as slower, a machine
              that wears out only slower
unreliable    of its last 20 re-measurements half or more said SAME, and a third more of them than of the 20 before
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from stepwatch.core.model import Direction, Verdict

QUIET = dt.timedelta(hours=26)
STEPS, IMPROVEMENTS_MIN = 50, 11
RECHECKS, SAME_SHARE, MORE = 20, 1 / 2, 1 / 3


def no_data(last: dt.datetime | None, now: dt.datetime) -> str | None:
    """`last` is when something was measured last, None where never."""
    if last is None or now - last <= QUIET:
        return None
    return f"nothing was measured for {(now - last) / dt.timedelta(hours=1):.0f} hours, since {last:%Y-%m-%d %H:%M} UTC"


def one_sided(directions: Sequence[Direction]) -> str | None:
    """`directions` of all steps, the newest last."""
    last = directions[-STEPS:]
    better = sum(each is Direction.IMPROVEMENT for each in last)
    if len(last) < STEPS or better >= IMPROVEMENTS_MIN:
        return None
    return f"of the last {STEPS} steps only {better} are improvements: is it the machine that gets slower?"


def unreliable(verdicts: Sequence[Verdict]) -> str | None:
    """`verdicts` of all decided re-measurements, the newest last."""
    now, before = (
        [each is Verdict.SAME for each in part]
        for part in (verdicts[-RECHECKS:], verdicts[-2 * RECHECKS : -RECHECKS])
    )
    if len(before) < RECHECKS:
        return None
    share, earlier = sum(now) / RECHECKS, sum(before) / RECHECKS
    if share < SAME_SHARE or share - earlier < MORE:
        return None
    return (
        f"of the last {RECHECKS} re-measurements {sum(now)} said that nothing had changed, of the {RECHECKS} before"
        f" {sum(before)}: has the machine become noisier?"
    )
