"""How are pairs, revisions and what a crossing showed said in a culprit's reason?

Released versions are installed and named by package (`jax 0.10.2`, `jaxlib 0.10.2`); commits are built and named
`jax@709564ab7874`. Which end is the fast one follows from the metric's direction and from the step's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from stepwatch.core.model import JAX, XLA, Better, CommitPair, Direction, Revision
from stepwatch.core.units import direction, format_change

_TITLES = {JAX: "JAX", XLA: "XLA"}
_PACKAGES = {JAX: "jax", XLA: "jaxlib"}
_QUICK = math.log(1.05)


@dataclass(frozen=True, kw_only=True)
class Wording:
    """The words of one bracket, of its step, `step` = log(bad level / good level)."""

    better: Better
    step: float

    def title(self, repository: str) -> str:
        """`JAX` or `XLA`."""
        return _TITLES[repository]

    def revision(self, revision: Revision) -> str:
        """`jaxlib 0.10.2`, or `xla@4567def01234`."""
        return f"{_PACKAGES[revision.repository]} {revision.ref}" if revision.is_release else str(revision)

    def culprit(self, revision: Revision) -> str:
        """`XLA (jaxlib 0.10.2)`."""
        return f"{self.title(revision.repository)} ({self.revision(revision)})"

    def pair(self, pair: CommitPair) -> str:
        """`jax 0.10.2 with jaxlib 0.10.1`."""
        return f"{self.revision(pair.jax)} with {self.revision(pair.xla)}"

    def label(self, pair: CommitPair) -> str:
        """A pair as an end of a range: `0.4.31` where a release has one number in both, else both revisions."""
        return pair.jax.ref if pair.jax.ref == pair.xla.ref else str(pair)

    def refused(self, pair: CommitPair) -> str:
        """What a pair that is broken can't be."""
        return f"{self.pair(pair)} can't be {self.made(pair)}"

    def made(self, pair: CommitPair) -> str:
        """What is done to have a pair."""
        return "installed" if pair.jax.is_release and pair.xla.is_release else "built"

    def change(self, change: float) -> str:
        """A difference of log levels: `+10.0 %`, `x 12`."""
        return format_change(old=1.0, new=math.exp(change))

    def speed(self, change: float) -> str:
        """What a pair is whose log level lies `change` above the good end's: like the one end, the other, or between."""
        worse = direction(old=1.0, new=math.exp(self.step), better=self.better) is Direction.REGRESSION
        good, bad = ("fast", "slow") if worse else ("slow", "fast")
        if abs(change) <= max(_QUICK, abs(self.step) / 3):
            return good
        if abs(change - self.step) <= max(_QUICK, abs(self.step) / 3):
            return bad
        return f"neither fast nor slow ({self.change(change)})"

    def because(self, refusals: Mapping[CommitPair, str]) -> str:
        """`jax A with jaxlib B: why; ...`."""
        return "; ".join(f"{self.pair(pair)}: {why}" for pair, why in refusals.items())
