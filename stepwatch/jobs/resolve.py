"""Which pair is a night, or why is there none?"""

from __future__ import annotations

import datetime as dt

from stepwatch.core.model import Night
from stepwatch.jobs.workplace import Workplace
from storage.nights import save_night
from storage.rows import ensure_machine


class NoNightError(Exception):
    """Nothing was published on that date: not a gap of a ladder, nothing to store."""


def resolve(place: Workplace, label: str) -> Night:
    """Find the night and store it; a night without a pair is stored as a gap with its reason.

    `label` is the source's own (a release) or a date, which stands for what was published on that UTC day.

    Raises:
        NoNightError: nothing was published on that date.
        UnreachableError: the source does not answer.
    """
    night = place.nights.night(_label(place, label))
    with place.database.begin() as connection:
        ensure_machine(connection, place.machine)
        save_night(connection, night)
    if night.gap_reason is not None:
        place.say(f"{night.label}: a gap: {night.gap_reason}")
    return night


def _label(place: Workplace, label: str) -> str:
    try:
        date = dt.date.fromisoformat(label)
    except ValueError:
        return label
    found = place.nights.label_on(date)
    if found is None:
        raise NoNightError(f"nothing was released on {date}")
    return found
