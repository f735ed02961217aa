"""How large is an effect between pairs that were measured, is it one, and what is still to be measured for that?

An effect is a sum of log levels, some added and some taken away: `bad - good` is a step, and `(bad - a) - (b -
good)` says how much more it is than its two halves alone. All pairs are measured as ratios to the same reference.

    DIFFERENT  it matters (`min_effect`, and a tenth of the step that is being explained) and is 3.5 standard errors
    SAME       it does not matter, with two standard errors to spare
    UNKNOWN    otherwise; more processes are asked for. At the cap the step itself is the yardstick: what is less
               than a third of it is none, and what is more than two thirds is one if it is two standard errors

Without that last rule a step of ten times could not be attributed on a machine where one value is twice another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stepwatch.core.bisection.compare import ERRORS_DIFFERENT, ERRORS_SAME, SECOND_LOOK, error, level
from stepwatch.core.bisection.plan import Observation, Policy
from stepwatch.core.model import CommitPair, Verdict

SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A difference of log levels and what it means."""

    log: float
    verdict: Verdict


@dataclass(kw_only=True)
class Crossings:
    """What was measured of pairs, and (in `asks`: pair to further processes) what is still to be measured.

    `step` is the step that is being explained, log(bad level / good level).
    """

    observations: Mapping[CommitPair, Observation]
    policy: Policy
    step: float = 0.0
    asks: dict[CommitPair, int] = field(default_factory=dict)

    def refusal(self, pair: CommitPair) -> str | None:
        """Why the pair can't be measured, None where it can be or was not tried."""
        return self.observations.get(pair, Observation()).broken

    def refusals(self, pairs: Sequence[CommitPair]) -> dict[CommitPair, str]:
        """Those of the pairs that can't be measured, with the reasons."""
        return {pair: why for pair in pairs if (why := self.refusal(pair)) is not None}

    def missing(self, pairs: Sequence[CommitPair]) -> bool:
        """Whether a pair that is not known to be broken lacks its first values; those are asked for."""
        wanted = max(SECOND_LOOK, self.policy.repeats)
        short = [pair for pair in pairs if self.refusal(pair) is None and self.size(pair) < SECOND_LOOK]
        for pair in short:
            self.ask(pair, wanted)
        return bool(short)

    def ask(self, pair: CommitPair, wanted: int) -> None:
        """Ask that the pair has `wanted` processes in all."""
        self.asks[pair] = max(self.asks.get(pair, 0), wanted - self.size(pair))

    def size(self, pair: CommitPair) -> int:
        """How many processes of the pair were measured."""
        return len(self.observations.get(pair, Observation()).values)

    def change(self, old: CommitPair, new: CommitPair) -> float:
        """Log of `new`'s level over `old`'s; both have values."""
        sides = [level(self.observations[pair].values, self.policy.better) for pair in (old, new)]
        return sides[1].log - sides[0].log

    def effect(self, plus: Sequence[CommitPair], minus: Sequence[CommitPair]) -> Effect:
        """The sum of the levels in `plus` less those in `minus`, all of which have values; asks for more if unclear."""
        pairs = [*plus, *minus]
        sides = [level(self.observations[pair].values, self.policy.better) for pair in pairs]
        value = math.fsum(side.log for side in sides[: len(plus)]) - math.fsum(
            side.log for side in sides[len(plus) :]
        )
        unsure = error(sides, self.policy.noise)
        matters = max(math.log1p(self.policy.min_effect), SHARE * abs(self.step))
        if abs(value) >= max(matters, ERRORS_DIFFERENT * unsure):
            return Effect(log=value, verdict=Verdict.DIFFERENT)
        if abs(value) + ERRORS_SAME * unsure < matters:
            return Effect(log=value, verdict=Verdict.SAME)
        fewest = min(self.size(pair) for pair in pairs)
        if fewest < self.policy.cap:
            for pair in pairs:
                if self.size(pair) < (wanted := min(self.policy.cap, 2 * fewest)):
                    self.ask(pair, wanted)
        elif abs(value) < max(matters, abs(self.step) / 3):
            return Effect(log=value, verdict=Verdict.SAME)
        elif abs(value) > max(2 / 3 * abs(self.step), ERRORS_SAME * unsure):
            return Effect(log=value, verdict=Verdict.DIFFERENT)
        return Effect(log=value, verdict=Verdict.UNKNOWN)
