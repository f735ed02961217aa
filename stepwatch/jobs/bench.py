"""How is one night measured?

The run's key is made before anything is launched. A night that has an OK run is not measured again (unless asked),
one that was interrupted goes on with the process that it was at, one that failed is tried again as a new attempt.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stepwatch.core.model import Origin, Outcome
from stepwatch.jobs.measure import measure
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure
from storage.nights import find_night, save_night
from storage.runs import RunRow, attach_environment, finish_run, last_night_run, open_run


class InterruptedRunError(Exception):
    """Somebody ended a run; it stays open, and what it had measured is kept."""


def bench(
    place: Workplace, label: str, *, origin: Origin = Origin.NIGHTLY, fresh: bool = False
) -> str | None:
    """Measure a night that has been resolved and return its run's key; None for a night that is a gap.

    The documents stay in the run's folder for `record`.

    Raises:
        LookupError: the night has not been resolved.
        InterruptedRunError: somebody ended it; measured again, it goes on with the process that it was at.
        UnreachableError: what the environment is made from can't be reached now.
    """
    with place.database.begin() as connection:
        found = find_night(connection, place.source, label)
    if found is None:
        raise LookupError(f"the night {label} has not been resolved")
    night_id, night = found
    if night.gap_reason is not None or (night.pair is None and night.image is None):
        return None
    run = _open(place, night_id, label, origin, fresh=fresh)
    if run.outcome is Outcome.OK:
        place.say(f"{label}: measured before, kept")
        return run.run_key
    opened = place.runner.open_night(night)
    if isinstance(opened, Failure):
        _fail(place, run, opened)
        # an image that is there but can't be used is a failed night, and no gap
        if night.image is None or opened.outcome is Outcome.IMAGE_MISSING:
            with place.database.begin() as connection:
                save_night(connection, replace(night, pair=None, gap_reason=opened.reason))
        return run.run_key
    with place.database.begin() as connection:
        save_night(connection, replace(night, pair=opened.environment.pair))
        attach_environment(connection, run.id, opened.environment, notes=opened.notes)
    folder = run_folder(place.runs, run.run_key)
    result = measure(
        place.runner, opened, place.suite, folder, say=lambda text: place.say(f"{label}: {text}")
    )
    if isinstance(result, Failure):
        _fail(place, run, result)
    return run.run_key


def run_folder(runs: Path, run_key: str) -> Path:
    """Where the documents of a run lie."""
    return runs / run_key.replace("/", "__")


def _open(place: Workplace, night_id: int, label: str, origin: Origin, *, fresh: bool) -> RunRow:
    with place.database.begin() as connection:
        machine, suite = place.machine.name, place.suite.name
        last = last_night_run(connection, night_id=night_id, machine=machine, suite=suite)
        if last is not None and (last.outcome is None or (last.outcome is Outcome.OK and not fresh)):
            return last
        attempt = 1 if last is None else last.attempt + 1
        return open_run(
            connection,
            run_key=f"{place.source.name}/{label}/{machine}/{suite}/{attempt}",
            machine=machine,
            suite=suite,
            origin=Origin(origin),
            attempt=attempt,
            night_id=night_id,
        )


def _fail(place: Workplace, run: RunRow, failure: Failure) -> None:
    if failure.outcome is Outcome.CANCELLED:
        raise InterruptedRunError(f"{run.run_key}: {failure.reason}; the same command goes on from there")
    place.say(f"{run.run_key}: {failure.outcome.value}: {failure.reason}")
    with place.database.begin() as connection:
        finish_run(
            connection,
            run.id,
            outcome=failure.outcome,
            reason=failure.reason,
            log=failure.log,
        )
