"""Is there by now what was a gap some days ago, and is what was there still the same?

A nightly image may be published late, or under its tag another one may be put. So the nights of the last days are looked at
again, and what has become of a gap is measured like any night.
"""

from __future__ import annotations

import datetime as dt

from stepwatch.core.model import Origin
from stepwatch.jobs.bench import bench
from stepwatch.jobs.record import record
from stepwatch.jobs.resolve import resolve
from stepwatch.jobs.workplace import Workplace
from storage.nights import recent_labels


def catch_up(place: Workplace) -> int:
    """Look again at the nights of the last `look_back_days`; returns how many gaps were measured.

    Raises:
        UnreachableError: the source does not answer.
    """
    since = dt.datetime.now(dt.UTC) - dt.timedelta(days=place.look_back_days)
    with place.database.begin() as connection:
        recent = recent_labels(connection, place.source, since=since) if place.look_back_days else []
    measured = 0
    for label, was_gap in recent:
        night = resolve(place, label)
        if was_gap and night.gap_reason is None:
            place.say(f"{label}: it is there by now")
            run_key = bench(place, label, origin=Origin.NIGHTLY)
            measured += 0 if run_key is None else min(record(place, run_key), 1)
    return measured
