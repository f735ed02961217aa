"""Which range is to be searched, and for which series?

A request comes from a person or from the hourly tick; it is completed with what its incident knows, its ends become
pairs, and what lies between them becomes the path of candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stepwatch.core import requests
from stepwatch.core.bisection.candidates import candidates
from stepwatch.core.model import CommitPair, SourceKind, title
from stepwatch.jobs.workplace import Workplace
from storage import bisections
from storage.nights import find_night, night_times
from storage.rows import Database, load_series
from storage.waiting import waiting_incidents


class RefusedError(Exception):
    """A request that can't be carried out; the sentence says why and what is accepted."""


def locate(database: Database, conf: Mapping[str, Any]) -> requests.BisectionRequest:
    """Read a request and complete it with its incident, machine and source.

    Raises:
        RefusedError: it is not understood, or there is nothing to search.
    """
    request = requests.parse_request(conf)
    if isinstance(request, str):
        raise RefusedError(request)
    if request.benchmark is not None:
        return request
    with database.begin() as connection:
        waiting = waiting_incidents(connection)
        number = request.incident if request.incident is not None else next(iter(waiting), None)
        if number is None:
            raise RefusedError("no alerted incident waits for a bisection")
        found = bisections.incident_place(connection, number)
    if found is None:
        raise RefusedError(f"there is no alerted incident {number}")
    if found.source.kind is SourceKind.LOGS:
        raise RefusedError(f"incident {number} is of figures that were imported; they can't be run")
    if found.source.kind is SourceKind.REGISTRY:
        raise RefusedError(
            f"incident {number} is of nightly containers, in which commits can't be searched yet"
        )
    for key, asked, has in (
        ("machine", request.machine, found.machine),
        ("source", request.source, found.source.name),
    ):
        if asked not in {None, has}:
            raise RefusedError(f"incident {number} is of the {key} {has}, not {asked}")
    return replace(request, incident=number, machine=found.machine, source=found.source.name)


def open_bisection(place: Workplace, request: requests.BisectionRequest) -> int:
    """Open the bisection of a located request, or attach to the one that its incident has; returns its id.

    Raises:
        RefusedError: the ends or the benchmark are not to be had.
        UnreachableError: the source does not answer.
    """
    if place.source.kind is SourceKind.REGISTRY:
        raise RefusedError(
            f"{place.source.name} has nightly containers, in which commits can't be searched yet"
        )
    if request.incident is not None:
        with place.database.begin() as connection:
            found = bisections.incident_place(connection, request.incident)
        if found is None:
            raise RefusedError(f"there is no alerted incident {request.incident}")
        series_id, ends = found.series_id, (found.after, found.through)
    else:
        series_id = _series(place, str(request.benchmark))
        ends = (str(request.good), str(request.bad))
    good, bad = (_end(place, end) for end in ends)
    if good == bad:
        raise RefusedError(f"{ends[0]} and {ends[1]} are both {good}; there is nothing between them")
    if good.at >= bad.at:
        raise RefusedError(f"the good end {ends[0]} is not before the bad end {ends[1]}")
    path = candidates(good, bad, place.nights.revisions(good, bad))
    with place.database.begin() as connection:
        bisection_id = bisections.open_bisection(
            connection,
            incident_id=request.incident,
            series_id=series_id,
            path=path,
            good=ends[0],
            bad=ends[1],
            policy=request.policy or place.policy,
        )
    place.say(f"bisection {bisection_id}: {len(path)} candidates in ({ends[0]}, {ends[1]}]")
    return bisection_id


def _series(place: Workplace, name: str) -> int:
    with place.database.begin() as connection:
        found = {each: load_series(connection, each) for each in bisections.series_named(connection, name)}
    here = {
        each: series
        for each, series in found.items()
        if series.machine == place.machine.name and series.source == place.source
    }
    if len(here) == 1:
        return next(iter(here))
    if here:
        choices = ", ".join(title(series.benchmark.name, series.benchmark.params) for series in here.values())
        raise RefusedError(f"{name} is several series; accepted is one of {choices}")
    if any(series.source.kind is SourceKind.LOGS for series in found.values()):
        raise RefusedError(f"{name} was imported; its nights can't be run")
    raise RefusedError(
        f"no benchmark {name} has been measured on {place.machine.name} with the source {place.source.name}; "
        "measure one of its nights first (the DAG nightly, or stepwatch nightly) and ask again"
    )


def _end(place: Workplace, end: str) -> CommitPair:
    """The pair that an end of a range names: a pair, a date (its newest night) or a label of the source."""
    named = requests.parse_pair(end)
    if named is not None:
        pair = place.nights.pair(*named)
        if isinstance(pair, str):
            raise RefusedError(f"{end}: {pair}")
        return pair
    date = requests.parse_date(end)
    with place.database.begin() as connection:
        if date is not None:
            nights = night_times(connection, place.source)
            before = [label for label, at, gap in nights if at.date() <= date and gap is None]
            if not before:
                raise RefusedError(f"no night of {place.source.name} is known on or before {end}")
            end = before[-1]
        found = find_night(connection, place.source, end)
    night = found[1] if found is not None else place.nights.night(end)
    if night is None:
        raise RefusedError(
            f"{place.source.name} has no night {end!r}; accepted is a date, a release, or jax@…+xla@…"
        )
    if night.pair is None:
        raise RefusedError(f"{end} can't be an end: {night.gap_reason or 'its pair is not known'}")
    return night.pair
