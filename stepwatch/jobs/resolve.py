"""Which pair is a night, or why is there none?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from stepwatch.core.model import Night
from stepwatch.core.nights import seen_again
from stepwatch.jobs.open_bisection import RefusedError
from stepwatch.jobs.workplace import Workplace
from storage.incidents import write
from storage.nights import find_night, is_measured, save_night
from storage.rows import ensure_machine

NIGHT_KEYS = ("date", "fresh", "machine", "release", "source", "suite")


class NoNightError(Exception):
    """There is no such night, and not even a gap to store."""


def resolve(place: Workplace, label: str) -> Night:
    """Find the night and store it; a night without a pair is stored as a gap with its reason.

    `label` is the source's own (a release) or a date, which stands for what was published on that UTC day.

    Raises:
        NoNightError: nothing was published on that date, or the source knows no such label; nothing is stored.
        UnreachableError: the source does not answer.
    """
    night = place.nights.night(_label(place, label))
    if night is None:
        raise NoNightError(
            f"{place.source.name} has no night {label!r}; accepted is a release or a date such as 2024-09-16"
        )
    with place.database.begin() as connection:
        ensure_machine(connection, place.machine)
        known = find_night(connection, place.source, night.label)
        remark = None
        if known is not None:
            night, remark = seen_again(known[1], night, measured=is_measured(connection, known[0]))
        save_night(connection, night)
        if remark is not None:
            said = {"title": f"{place.source.name} {night.label}: {remark}", "lines": []}
            write(connection, kind=f"image {said['title']}", message=said)
    if remark is not None:
        place.say(f"{night.label}: {remark}")
    if night.gap_reason is not None:
        place.say(f"{night.label}: a gap: {night.gap_reason}")
    return night


def asked_label(conf: Mapping[str, Any], logical_date: dt.datetime | None) -> str:
    """The night that a run of the DAG `nightly` is about: a release, a date, else the run's own date.

    Raises:
        RefusedError: a key that is not known, or no night is named.
    """
    unknown = sorted(set(conf) - set(NIGHT_KEYS))
    if unknown:
        raise RefusedError(f"unknown key {', '.join(unknown)}; accepted are {', '.join(NIGHT_KEYS)}")
    label = conf["release"] or conf["date"] or (logical_date and logical_date.date().isoformat())
    if not label:
        raise RefusedError("no night is named; accepted is release or date")
    return str(label)


def _label(place: Workplace, label: str) -> str:
    try:
        date = dt.date.fromisoformat(label)
    except ValueError:
        return label
    found = place.nights.label_on(date)
    if found is None:
        raise NoNightError(f"nothing was released on {date}")
    return found
