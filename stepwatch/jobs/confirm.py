"""Is what looks like a step there when both sides are measured again, alternately?

All series that ask for the same two nights are measured in the same processes. Each leaves as soon as it is decided.

The control (stepwatch/jobs/control.py) is measured here as well, where it is due.

Where what stands beside the pair moves from one night to the next (another numpy for newer releases), every series is
measured again across that bridge, with what stands beside it held still: the old pair beside the new one's set, or where
that can't be installed the new pair beside the old one's. What is the same then was not done by the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from stepwatch.core import documents
from stepwatch.core.bisection.compare import FIRST_LOOK, compare
from stepwatch.core.model import Benchmark, Night, Origin, Outcome, Verdict, digest
from stepwatch.core.recheck import EFFECT_MAX, effect_sought
from stepwatch.jobs.bench import run_folder
from stepwatch.jobs.control import control
from stepwatch.jobs.detect import detect
from stepwatch.jobs.measure import alternate
from stepwatch.jobs.record import record_documents
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure, Opened
from storage.rechecks import (
    Recheck,
    ask_bridge,
    measured_nights,
    night_values,
    open_rechecks,
    save_evidence,
)
from storage.rows import load_series

SIDES = ("old", "new")
CAP = 5  # processes a side; what is not clear by then waits for more nights
CAP_SMALL = 10  # the same of a step that is less than EFFECT_MAX can tell


def confirm(place: Workplace) -> int:
    """Carry out every re-measurement that is asked for and detect with what they say; returns how many were decided.

    Raises:
        UnreachableError: what an environment is made from can't be reached now; what is decided is stored.
    """
    decided = 0
    _ask_bridges(place)
    if control(place):
        detect(place)
    while True:
        with place.database.begin() as connection:
            rechecks = open_rechecks(connection, machine=place.machine.name, source=place.source)
        now = sum(_recheck(place, recheck) for recheck in rechecks)
        if now == 0:
            return decided
        decided += now
        detect(place)  # with what this round said; it may ask for another boundary, each once


def _recheck(place: Workplace, recheck: Recheck) -> int:
    with place.database.begin() as connection:
        benchmarks = {each: load_series(connection, each).benchmark for each in recheck.series}
    place.say(f"{len(benchmarks)} series in {recheck.suspect}: both sides are measured again")
    sides = _open_sides(place, recheck)
    if isinstance(sides, Failure):
        return _broken(place, recheck.id, benchmarks, sides)
    return _decide(place, recheck, benchmarks, sides)


def _ask_bridges(place: Workplace) -> None:
    """Ask about each boundary between measured nights at which what stands beside the pair moves."""
    with place.database.begin() as connection:
        where: dict[str, Any] = {"machine": place.machine.name, "source": place.source}
        for (after_id, old), (through_id, new) in pairwise(measured_nights(connection, **where)):
            if _beside(place, old) != _beside(place, new):
                ask_bridge(connection, **where, after_id=after_id, through_id=through_id)


def _is_bridge(place: Workplace, recheck: Recheck) -> bool:
    return _beside(place, recheck.old) != _beside(place, recheck.new)


def _beside(place: Workplace, night: Night) -> tuple[str, ...]:
    return () if night.pair is None else place.runner.beside(night.pair)


def _open_sides(place: Workplace, recheck: Recheck) -> tuple[Opened, Opened] | Failure:
    """The environments of both sides; at a bridge with one set of requirements beside both, the newer where it can be."""
    failure = None
    nights = (recheck.old, recheck.new)
    for like in (recheck.new.pair, recheck.old.pair) if _is_bridge(place, recheck) else (None,):
        old, new = (
            place.runner.open_night(night)
            if like is None or night.pair is None
            else place.runner.open(night.pair, like=like)
            for night in nights
        )
        if not isinstance(old, Failure) and not isinstance(new, Failure):
            return old, new
        failure = failure or next(each for each in (old, new) if isinstance(each, Failure))
    if failure is None:
        raise AssertionError("there is always a set to try")
    return failure


def _decide(
    place: Workplace, recheck: Recheck, benchmarks: dict[int, Benchmark], sides: Sequence[Opened]
) -> int:
    undecided = dict(benchmarks)
    sought = _sought(place, recheck)
    # the same boundary may be asked about again for other series: what was measured for these lies in its own folder
    key = f"recheck/{recheck.id}/{digest(sorted(benchmarks))[:8]}"
    folder = run_folder(place.runs, key)
    count = FIRST_LOOK
    while True:
        result = alternate(
            place.runner,
            sides[0],
            sides[1],
            place.suite,
            folder,
            benchmarks=undecided.values(),
            count=count,
        )
        if isinstance(result, Failure):
            return _broken(place, recheck.id, undecided, result)
        more = 0
        with place.database.begin() as connection:
            for series_id, benchmark in list(undecided.items()):
                old, new = (documents.process_values(side, benchmark) for side in result)
                comparison = compare(
                    old,
                    new,
                    better=benchmark.better,
                    min_effect=sought[series_id],
                    cap=CAP if sought[series_id] >= EFFECT_MAX else CAP_SMALL,
                    give_up=True,
                )
                if comparison.more and min(len(old), len(new)) >= count:
                    more = max(more, comparison.more)
                    continue
                save_evidence(
                    connection,
                    recheck_id=recheck.id,
                    series_id=series_id,
                    bridge=_is_bridge(place, recheck),
                    verdict=comparison.verdict if not comparison.more else Verdict.BROKEN,
                    ratio=comparison.ratio,
                    old=old,
                    new=new,
                    reason=comparison.reason,
                )
                del undecided[series_id]
            if not undecided:
                for side, opened, read in zip(SIDES, sides, result, strict=True):
                    record_documents(
                        connection,
                        place,
                        read,
                        run_key=f"{key}/{side}",
                        origin=Origin.RECHECK,
                        opened=opened,
                        recheck_id=recheck.id,
                    )
                return len(benchmarks)
        count += more


def _sought(place: Workplace, recheck: Recheck) -> dict[int, float]:
    """The change of each series that is to be seen: of its own step; across a bridge or an overlap there need be none."""
    if _is_bridge(place, recheck):
        return dict.fromkeys(recheck.series, EFFECT_MAX)
    with place.database.begin() as connection:
        values = night_values(connection, recheck)
    return {
        series_id: effect_sought(*values[series_id]) if series_id in values else EFFECT_MAX
        for series_id in recheck.series
    }


def _broken(place: Workplace, recheck_id: int, benchmarks: dict[int, Benchmark], failure: Failure) -> int:
    place.say(f"not measured again: {failure.reason}")
    if failure.outcome is Outcome.CANCELLED:
        return 0
    with place.database.begin() as connection:
        for series_id in benchmarks:
            save_evidence(
                connection,
                recheck_id=recheck_id,
                series_id=series_id,
                verdict=Verdict.BROKEN,
                ratio=None,
                old=(),
                new=(),
                reason=failure.reason,
            )
    return len(benchmarks)
