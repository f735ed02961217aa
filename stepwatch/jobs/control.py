"""Has the machine moved, or the program?

A pinned old environment is measured again: once in so many days all of it, and on a night on which a step is suspected
the benchmarks in question. What it measures is stored with tonight's night and never enters the series themselves.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from stepwatch.core.model import Night, Origin, Outcome
from stepwatch.jobs.bench import run_folder
from stepwatch.jobs.measure import measure, measure_some, selections
from stepwatch.jobs.record import record_documents
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure
from storage.controls import last_measured, suspected_since
from storage.nights import find_night
from storage.rechecks import measured_nights
from storage.rows import Connection, load_series


def control(place: Workplace) -> bool:
    """Measure the pinned environment where that is due; says whether it was.

    Raises:
        UnreachableError: what the environment is made from can't be reached now.
    """
    if not place.control_days:
        return False
    with place.database.begin() as connection:
        measured = measured_nights(connection, machine=place.machine.name, source=place.source)
        pinned = _pinned(connection, place, [night for _, night in measured])
        if pinned is None:
            if place.control is not None:
                place.say(f"the control {place.control} is not measured: no such night is known with a pair")
            return False
        last = last_measured(connection, pinned.pair, machine=place.machine.name) if pinned.pair else None
        # at most one an hour: what was suspected since then waits for the next night
        recent = last is not None and dt.datetime.now(dt.UTC) - last < dt.timedelta(hours=1)
        due = last is None or dt.datetime.now(dt.UTC) - last >= dt.timedelta(days=place.control_days)
        suspects = (
            []
            if last is None or recent
            else suspected_since(connection, last, machine=place.machine.name, source=place.source)
        )
        benchmarks = [load_series(connection, each).benchmark for each in suspects]
        tonight = measured[-1][0]
    if not due and not benchmarks:
        return False
    opened = place.runner.open_night(pinned)
    if isinstance(opened, Failure):
        place.say(f"the control {pinned.label} can't be measured: {opened.reason}")
        return False
    now = dt.datetime.now(dt.UTC)
    key = f"control/{place.source.name}/{place.machine.name}/{place.suite.name}/{now:%Y-%m-%dT%H}"
    folder = run_folder(place.runs, key)
    place.say(
        f"the control {pinned.label} is measured: {'all of it' if due else f'{len(benchmarks)} series moved'}"
    )
    result = (
        measure(place.runner, opened, place.suite, folder)
        if due
        else measure_some(
            place.runner,
            opened,
            place.suite,
            folder,
            only=selections(benchmarks),
            count=place.suite.processes,
        )
    )
    if isinstance(result, Failure):
        if result.outcome is not Outcome.CANCELLED:
            place.say(f"the control {pinned.label} was not measured: {result.reason}")
        return False
    with place.database.begin() as connection:
        record_documents(
            connection,
            place,
            result,
            run_key=key,
            origin=Origin.CONTROL,
            opened=opened,
            night_id=tonight,
        )
    return True


def _pinned(connection: Connection, place: Workplace, measured: Sequence[Night]) -> Night | None:
    """The configured night, where its pair is known, else the first one that was measured here; None where there is none yet."""
    if place.control is None:
        return measured[0] if measured else None
    found = find_night(connection, place.source, place.control)
    return found[1] if found is not None and found[1].pair is not None and measured else None
