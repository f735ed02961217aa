"""Does the search for what did it reach its targets, in simulated worlds, beside other searches in the same worlds?

Prints four tables (steps of one direction; dips; whose a bracket is; the guide's August, hour by hour) and ends with
a verdict; exit 1 when a target is missed. A probe is a candidate that was tried, the ends and broken ones included; a
repeat is a process that was measured, those that measure a bracket's sides once more included. `doubted` are brackets
with a step that did not stand then, and so are told as ranges. Everything follows from the seed.

The others, in brief and as they are published: a plain binary search; NVIDIA's for JAX containers, which sorts values
into two Gaussian populations with a shared variance; and every candidate measured.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from bench_attribution import Effects, Named, attribute
from bench_worlds import August, Found, Kind, Lab, Ours, Search, Sums
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from stepwatch.core.bisection.compare import SECOND_LOOK, compare
from stepwatch.core.bisection.plan import PolicyKind
from stepwatch.core.model import Verdict

CHUNK = 25  # worlds, or brackets, of one piece of work
KINDS = (("commits alone", 3, 0), ("interactions", 0, 2), ("both", 3, 2))  # and how many of them at most
NAMED = ("worlds", "brackets", "pairs", "repeats", "names", "wrong", "missing", "as ranges")


class Work:
    """The processes that play worlds, the bar that says how far they are, and the targets met and missed."""

    def __init__(self, pool: ProcessPoolExecutor, progress: Progress, seed: int) -> None:
        self.pool, self.progress, self.seed = pool, progress, seed
        self.met: list[str] = []
        self.missed: list[str] = []

    def judge(self, figure: str, target: str, *, met: bool) -> None:
        """Note one target."""
        (self.met if met else self.missed).append(f"{figure} ({target})")

    def play(self, kind: Kind | August, search: Search, worlds: int) -> Tally:
        """The sums over so many worlds of a kind."""
        chunks = [range(first, min(first + CHUNK, worlds)) for first in range(0, worlds, CHUNK)]
        task = self.progress.add_task(kind.name, total=len(chunks))
        total = Tally()
        for one in self.pool.map(partial(play, kind, search, seed=self.seed), chunks):
            total.add(one)
            self.progress.advance(task)
        self.progress.remove_task(task)
        return total

    def attribute(self, kind: Effects, brackets: float) -> Named:
        """The sums over so many brackets of a kind."""
        chunks = range(math.ceil(brackets / CHUNK))
        task = self.progress.add_task(kind.name, total=len(chunks))
        total = Named()
        for one in self.pool.map(partial(attribute, kind, CHUNK, self.seed), chunks):
            total.add(one)
            self.progress.advance(task)
        self.progress.remove_task(task)
        return total


def main() -> int:
    """Play the worlds, print the tables, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worlds", type=int, default=2000, help="of each kind with steps of one direction")
    parser.add_argument("--brackets", type=int, default=4000, help="that are attributed")
    parser.add_argument("--seed", type=int, default=1, help="what all worlds follow from")
    parser.add_argument("--processes", type=int, default=2, help="how many play at once")
    options = parser.parse_args()
    console = Console(width=140)
    with (
        ProcessPoolExecutor(options.processes) as pool,
        Progress(console=console, transient=True) as progress,
    ):
        work = Work(pool, progress, options.seed)
        for show, count in (
            (_explore, options.worlds),
            (_dips, max(1, options.worlds // 4)),
            (_blame, options.brackets),
            (_august, max(1, options.worlds // 10)),
        ):
            progress.console.print(show(work, count), "")
    missed = f"MISSED: {', '.join(work.missed)}; " if work.missed else ""
    console.print(f"bench-search: {missed}ok: {', '.join(work.met)}", soft_wrap=True)
    return 1 if work.missed else 0


# --- what came of it ------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Tally(Sums):
    """The sums over some worlds; `wide` brackets hold a step and are not as narrow as the broken candidates allow."""

    steps: int = 0
    probes: int = 0
    repeats: int = 0
    missed: int = 0
    false: int = 0
    wide: int = 0
    doubted: int = 0  # of those that hold a step
    unanswered: int = 0


def play(kind: Kind | August, search: Search, worlds: range, seed: int) -> Tally:
    """Some worlds of one kind, searched; a world is the same for every search."""
    total = Tally()
    for number in worlds:
        world = kind.make(random.Random(f"{seed} {kind.name} {number}"))  # noqa: S311
        lab = Lab(world=world, rng=random.Random(f"{seed} {kind.name} {number} measured"))  # noqa: S311
        total.add(_score(lab, search(lab)))
    return total


def _score(lab: Lab, found: Found) -> Tally:
    steps, wanted = lab.world.steps, lab.world.brackets
    holding, doubted = (
        [(a, b) for a, b in some if any(a < step <= b for step in steps)]
        for some in (found.brackets, found.doubted)
    )
    return Tally(
        worlds=1,
        steps=len(steps),
        probes=len(lab.seen),
        repeats=sum(len(seen.values) for seen in lab.seen.values()) + lab.sandwiches,
        missed=sum(not any(a < step <= b for a, b in [*holding, *doubted]) for step in steps),
        false=len(found.brackets) - len(holding),
        wide=sum(bracket not in wanted for bracket in holding),
        doubted=len(doubted),
        unanswered=not found.answered,
    )


# --- the others -----------------------------------------------------------------------------------------------------


def binary(lab: Lab) -> Found:
    """Good or bad by the half-way between the ends' medians of five; one bracket."""
    a, b = 0, len(lab.world.levels) - 1
    good, bad = (statistics.median(lab.measure(at, SECOND_LOOK).values) for at in (a, b))
    while (at := lab.split(a, b, SECOND_LOOK)) is not None:
        value = statistics.median(lab.seen[at].values)
        a, b = (at, b) if abs(value - good) < abs(value - bad) else (a, at)
    return Found(brackets=((a, b),))


def two_populations(lab: Lab) -> Found:
    """Good or bad by two Gaussian populations; what belongs to neither is run up to three times more, then it aborts."""
    a, b = 0, len(lab.world.levels) - 1
    known = _Populations(lab.measure(a, 1).values[0], lab.measure(b, 1).values[0])
    for side, end in enumerate((a, b)):
        for _ in range(2):
            new = lab.measure(end, 1).values[-1:]
            check = known.side(new)
            if check is None:
                known.add(side, new)
            elif check != side:
                return Found(answered=False)
    while (at := lab.split(a, b, 1)) is not None:
        said = known.side(lab.seen[at].values)
        for _ in range(3):
            if said is None:
                said = known.side(lab.measure(at, 1).values)
        if said is None:
            return Found(answered=False)
        a, b = (a, at) if said else (at, b)
    return Found(brackets=((a, b),))


class _Populations:
    """Two means and one variance that are learnt: conjugate, so what belongs to a side is a ratio of evidences."""

    ODDS = math.log(0.997 / 0.003)

    def __init__(self, good: float, bad: float) -> None:
        self.means, self.weights = [good, bad], [1, 1]
        self.shape, self.rate = 1.0, 2e-4 * (good - bad) ** 2  # half for each; 1e-4 is the least

    def side(self, values: tuple[float, ...]) -> int | None:
        """0 for good, 1 for bad (then it has learnt from them), None where the odds are too small."""
        good, bad = (self._evidence(side, values) for side in (0, 1))
        if abs(good - bad) <= self.ODDS:
            return None
        side = int(bad > good)
        self.add(side, values)
        return side

    def add(self, side: int, values: tuple[float, ...]) -> None:
        """Learn from values that belong to a side."""
        weight, count = self.weights[side], len(values)
        self.rate += self._misfit(side, values)
        self.shape += count / 2
        self.means[side] = (weight * self.means[side] + math.fsum(values)) / (weight + count)
        self.weights[side] += count

    def _misfit(self, side: int, values: tuple[float, ...]) -> float:
        mean, weight, count = math.fsum(values) / len(values), self.weights[side], len(values)
        scatter = math.fsum((value - mean) ** 2 for value in values)
        return scatter / 2 + weight * count * (mean - self.means[side]) ** 2 / (2 * (weight + count))

    def _evidence(self, side: int, values: tuple[float, ...]) -> float:
        """The log of how likely the values are, without what both sides share."""
        weight, count = self.weights[side], len(values)
        spread = math.log(weight / (weight + count)) / 2
        return spread - (self.shape + count / 2) * math.log(self.rate + self._misfit(side, values))


@dataclass(frozen=True, kw_only=True)
class Brute:
    """All candidates measured five times, and neighbours compared as ours are."""

    least: float = 0.05

    def __call__(self, lab: Lab) -> Found:
        """Measure, then compare."""
        for at in range(len(lab.world.levels)):
            lab.measure(at, SECOND_LOOK)
        works = [at for at, seen in sorted(lab.seen.items()) if seen.values]
        found = [
            (a, b)
            for a, b in itertools.pairwise(works)
            if compare(
                lab.seen[a].values,
                lab.seen[b].values,
                min_effect=self.least,
                cap=SECOND_LOOK,
                better=lab.world.better,
            ).verdict
            is Verdict.DIFFERENT
        ]
        return Found(brackets=tuple(found), answered=bool(found))


# --- steps of one direction -----------------------------------------------------------------------------------------

FOUND = ("probes", "repeats", "missed", "false", "too wide", "doubted", "no answer")
PEERS: dict[str, Search] = {
    "binary, half-way": binary,
    "two populations": two_populations,
    "all of them, 5 times": Brute(),
}
ONE_WAY = (
    (Kind(name="one step"), 8.0),
    (Kind(name="two steps", steps=2), 12.0),
    (Kind(name="three, 20 % broken", steps=3, broken=0.2), 17.0),
    (Kind(name="three, 20 % broken in a run", steps=3, broken=0.2, in_a_run=True), 21.0),
)
SLOW = Kind(name="two, 15 % slow processes", steps=2, slow=0.15)
LOUD = Kind(name="one of 7 % in noise of 5 %", sizes=(0.07,), noise=0.05)


def _explore(work: Work, worlds: int) -> Table:
    table = Table("world", "search", *FOUND, box=None, title_justify="left")
    table.title = f"explore: 49 candidates, steps of 15 to 60 % in noise of 3 %, {worlds} worlds of each kind"
    missed = inexact = 0
    for kind, most in ONE_WAY:
        job = _found(work, table, kind, "ours", Ours(), worlds)
        probes = job.probes / job.worlds
        work.judge(f"{kind.name} {probes:.1f} probes", f"<= {most:g}", met=probes <= most)
        missed += job.missed
        inexact += job.false + job.wide
        _peers(work, table, kind, worlds)
    work.judge(f"missed steps {missed}", "0", met=missed == 0)
    work.judge(f"brackets not exact {inexact}", "0", met=inexact == 0)
    slow = _found(work, table, SLOW, "ours", Ours(), worlds)
    _peers(work, table, SLOW, worlds)
    work.judge(f"slow processes {slow.missed} missed", "0", met=slow.missed == 0)
    false = slow.false / slow.worlds
    work.judge(f"{false:.4f} false brackets a world", "< .02", met=false < 0.02)
    loud = _found(work, table, LOUD, "ours", Ours(), worlds)
    _peers(work, table, LOUD, worlds)
    share = loud.missed / loud.steps
    work.judge(f"7 % in noise of 5 % {share:.2%} missed", "< 5 %", met=share < 0.05)
    work.judge(f"{loud.unanswered} without an answer", "0", met=loud.unanswered == 0)
    return table


def _peers(work: Work, table: Table, kind: Kind, worlds: int) -> None:
    for name, search in PEERS.items():
        _found(work, table, kind, name, search, worlds)
    table.add_section()


def _found(work: Work, table: Table, kind: Kind | August, name: str, search: Search, worlds: int) -> Tally:
    """Play, and add the row."""
    sums = work.play(kind, search, worlds)
    table.add_row(
        kind.name,
        name,
        f"{sums.probes / worlds:.2f}",
        f"{sums.repeats / worlds:.1f}",
        f"{sums.missed / sums.steps:.2%}",
        *(f"{each / worlds:.4f}" for each in (sums.false, sums.wide, sums.doubted)),
        f"{sums.unanswered / worlds:.2%}",
    )
    return sums


# --- dips -----------------------------------------------------------------------------------------------------------


def _dips(work: Work, worlds: int) -> Table:
    table = Table("world", "search", *FOUND, box=None, title_justify="left")
    table.title = f"both directions: the ends are the same, steps of 15 to 60 % in noise of 3 %, {worlds} worlds of each kind"
    comb = exhaustive = 0
    kinds = [(Kind(name=f"dip of {width}", widths=(width, width)), width) for width in (1, 2, 4, 8)]
    for kind, every in (*kinds, (Kind(name="two that cancel, 4 to 40 apart", widths=(4, 40)), 4)):
        _found(work, table, kind, "ours, explore", Ours(), worlds)
        combed = Ours(kind=PolicyKind.COMB, every=every)
        comb += _found(work, table, kind, f"ours, comb {every}", combed, worlds).missed
        all_of_them = Ours(kind=PolicyKind.EXHAUSTIVE)
        exhaustive += _found(work, table, kind, "ours, exhaustive", all_of_them, worlds).missed
        _peers(work, table, kind, worlds)
    work.judge(f"comb {comb} steps of dips missed", "0", met=comb == 0)
    work.judge(f"exhaustive {exhaustive} missed", "0", met=exhaustive == 0)
    return table


# --- the guide's August ---------------------------------------------------------------------------------------------


def _august(work: Work, worlds: int) -> Table:
    table = Table("world", "search", *FOUND, box=None, title_justify="left")
    table.title = f"the guide's August: (07-21, 08-26] by the hour, 587.6, 577.3, 536.7 MLUPS, noise .15 %, steps of 1 % are looked for, {worlds} times"
    ours = _found(work, table, August(), "ours", Ours(), worlds)
    others: dict[str, Search] = {**PEERS, "all of them, 5 times": Brute(least=0.01)}
    for name, search in others.items():
        _found(work, table, August(), name, search, worlds)
    exact = ours.missed + ours.false + ours.wide == 0
    figure = f"August's two regressions in one search {ours.probes / worlds:.1f} probes, {ours.missed} missed, {ours.wide} wider than a pair"
    work.judge(figure, "0 and 0", met=exact)
    return table


# --- whose a bracket is ---------------------------------------------------------------------------------------------


def _blame(work: Work, brackets: int) -> Table:
    table = Table("world", "path searched", "XLA's clock", *NAMED, box=None, title_justify="left")
    table.title = f"whose it is: 1 to 5 commits a repository, effects of 5 to 60 % that can be told in noise of 2 %, at least {brackets} brackets"
    sums = Named()
    for name, own, together in KINDS:
        for apart in (0.0, 30.0):
            kind = Effects(name=name, own=own, together=together, apart=apart)
            one = work.attribute(kind, brackets / 2 / len(KINDS))
            sums.add(one)
            _row(table, kind, one)
    for name, own, together in KINDS:
        kind = Effects(name=name, own=own, together=together, policy=PolicyKind.EXPLORE)
        _row(table, kind, work.attribute(kind, brackets / 10 / len(KINDS)))
    figure = f"{sums.wrong} wrong names in {sums.brackets} brackets"
    work.judge(figure, "0", met=sums.wrong == 0)
    silent = sums.missing - sums.told
    work.judge(
        f"{silent} of {sums.names} names missing, {sums.told} more told as ranges", "0", met=silent == 0
    )
    return table


def _row(table: Table, kind: Effects, sums: Named) -> None:
    table.add_row(
        kind.name,
        kind.policy,
        f"{kind.apart:+.0f} min",
        *(str(each) for each in (sums.worlds, sums.brackets)),
        *(f"{each / sums.worlds:.1f}" for each in (sums.pairs, sums.repeats)),
        *(str(each) for each in (sums.names, sums.wrong, sums.missing - sums.told, sums.told)),
    )


if __name__ == "__main__":
    sys.exit(main())
