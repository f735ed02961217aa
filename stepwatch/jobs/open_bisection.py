"""Which range is to be searched, and for which series?

A request comes from a person or from the hourly tick; it is completed with what its incident knows, its ends become
pairs, and what lies between them becomes the path of candidates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stepwatch.core import documents, requests
from stepwatch.core.bisection.candidates import Candidate
from stepwatch.core.bisection.plan import hours_of
from stepwatch.core.model import (
    CommitPair,
    Image,
    Night,
    Origin,
    Pairing,
    Series,
    SourceKind,
    digest,
    title,
)
from stepwatch.jobs.bench import run_folder
from stepwatch.jobs.measure import every_group, measure_some
from stepwatch.jobs.record import record_documents
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure
from storage import bisections
from storage.nights import find_image, find_night, night_times, save_night
from storage.rows import Database, ensure_machine, load_series
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
    for key, asked, has in (
        ("machine", request.machine, found.machine),
        ("source", request.source, found.source.name),
    ):
        if asked not in {None, has}:
            raise RefusedError(f"incident {number} is of the {key} {has}, not {asked}")
    return replace(request, incident=number, machine=found.machine, source=found.source.name)


@dataclass(frozen=True, kw_only=True)
class Range:
    """What a request comes down to: the path between two ends, as they were named, and its incident's series.

    Pairs are built in the image `container`, where the source is one of images.
    """

    series_id: int | None
    good: str
    bad: str
    path: Sequence[Candidate]
    container: Image | None = None


def find_range(place: Workplace, request: requests.BisectionRequest) -> Range:
    """The path of a located request; nothing is measured for that.

    Raises:
        RefusedError: the ends are not to be had.
        UnreachableError: the source does not answer.
    """
    series = None
    if request.incident is not None:
        with place.database.begin() as connection:
            found = bisections.incident_place(connection, request.incident)
        if found is None:
            raise RefusedError(f"there is no alerted incident {request.incident}")
        series, ends = found.series_id, (found.after, found.through)
    else:
        ends = (str(request.good), str(request.bad))
    container = _container(place, request.container, ends)
    good, bad = (_end(place, end) for end in ends)
    if good == bad:
        raise RefusedError(f"{ends[0]} and {ends[1]} are both {good}; there is nothing between them")
    if good.at > bad.at:
        raise RefusedError(f"the good end {ends[0]} is not before the bad end {ends[1]}")
    path = place.nights.path(good, bad, Pairing(request.pairing or Pairing.CLOCK))
    if isinstance(path, str):
        raise RefusedError(path)
    return Range(series_id=series, good=ends[0], bad=ends[1], path=path, container=container)


def open_bisection(
    place: Workplace,
    request: requests.BisectionRequest,
    *,
    repositories: Mapping[str, str] | None = None,
) -> int:
    """Open the bisection of a located request, or attach to the one that its incident has; returns its id.

    `repositories` are the URLs that it is to be read from, where they are not the configured ones.

    Raises:
        RefusedError: the ends or the benchmark are not to be had.
        UnreachableError: the source does not answer.
    """
    found = find_range(place, request)
    series = found.series_id
    if series is None:
        series = _series(place, str(request.benchmark), found)
    setup = bisections.Setup(
        policy=request.policy or place.policy,
        pairing=Pairing(request.pairing or Pairing.CLOCK),
        fix=request.fix,
        container=found.container.digest if found.container else None,
        repositories=dict(repositories or {}),
        budget_probes=request.budget_probes,
        budget_minutes=request.budget_minutes,
    )
    runner = place.runner.within(found.container)
    with place.database.begin() as connection:
        bisection_id = bisections.open_bisection(
            connection,
            incident_id=request.incident,
            series_id=series,
            path=[replace(each, at_hand=runner.has(each.pair)) for each in found.path],
            good=found.good,
            bad=found.bad,
            setup=setup,
        )
    place.say(f"bisection {bisection_id}: {expected(found)}")
    return bisection_id


def expected(found: Range) -> str:
    """What a search of a range is in for, in words."""
    hours = len(hours_of([each.hour is not None for each in found.path]))
    probes = math.ceil(math.log2(len(found.path))) + 2
    return (
        f"{len(found.path)} candidates in ({found.good}, {found.bad}], {hours} of them end an hour;"
        f" one step takes about {probes} probes"
        + (f"; they are built in {found.container.reference}" if found.container else "")
    )


def _series(place: Workplace, name: str, found: Range) -> int:
    """The series of a benchmark on this machine and source."""
    here = _measured(place, name)
    if not here and place.source.kind in {SourceKind.COMMITS, SourceKind.REGISTRY}:
        _measure_once(place, name, found)
        here = _measured(place, name)
    if len(here) == 1:
        return next(iter(here))
    if here:
        choices = ", ".join(title(series.benchmark.name, series.benchmark.params) for series in here.values())
        raise RefusedError(f"{name} is several series; accepted is one of {choices}")
    with place.database.begin() as connection:
        known = [load_series(connection, each) for each in bisections.series_named(connection, name)]
    if any(series.source.kind is SourceKind.LOGS for series in known):
        raise RefusedError(f"{name} was imported; its nights can't be run")
    raise RefusedError(
        f"no benchmark {name} has been measured on {place.machine.name} with the source {place.source.name}; "
        "measure one of its nights first (the DAG nightly, or stepwatch nightly) and ask again"
    )


def _measured(place: Workplace, name: str) -> dict[int, Series]:
    """The series that this machine has of a benchmark with this source."""
    with place.database.begin() as connection:
        found = {each: load_series(connection, each) for each in bisections.series_named(connection, name)}
    return {
        each: series
        for each, series in found.items()
        if series.machine == place.machine.name and series.source == place.source
    }


def _measure_once(place: Workplace, name: str, found: Range) -> None:
    """Measure a benchmark in one process at the good end, so that its series are known."""
    good = found.path[0].pair
    place.say(
        f"{name} was never measured with {place.source.name}: a process of {found.good} shows what it is"
    )
    night = _night(place, found.good)
    if night is not None and night.image is not None:
        opened = place.runner.open_night(night)
    else:
        opened = place.runner.within(found.container).open(good)
    if isinstance(opened, Failure):
        raise RefusedError(f"the good end {good} can't be had: {opened.reason}")
    key = f"series/{place.source.name}/{place.machine.name}/{digest([str(good), name])[:12]}"
    only = rf"^{re.escape(name)}(?=\(|$)"
    read = measure_some(
        place.runner, opened, every_group(place.suite), run_folder(place.runs, key), only=only, count=1
    )
    if isinstance(read, Failure):
        raise RefusedError(f"{name} can't be measured at the good end: {read.reason}")
    failed = next(iter(documents.failures(read).values()), None)
    if failed is not None:
        raise RefusedError(f"{name} can't be measured at the good end: {failed[1]}")
    if not documents.measurements(read):
        raise RefusedError(f"there is no benchmark {name}; `stepwatch benchmarks list` lists them")
    with place.database.begin() as connection:
        ensure_machine(connection, place.machine)
        record_documents(connection, place, read, run_key=key, origin=Origin.PROBE, opened=opened)


def _end(place: Workplace, end: str) -> CommitPair:
    """The pair that an end of a range names: a pair, a date (its newest night) or a label of the source."""
    named = requests.parse_pair(end)
    if named is not None:
        pair = place.nights.pair(*named)
        if isinstance(pair, str):
            raise RefusedError(f"{end}: {pair}")
        return pair
    night = _night(place, end)
    if night is None:
        raise RefusedError(
            f"{place.source.name} has no night {end!r}; accepted is a date, a release, or jax@…+xla@…"
        )
    if night.pair is not None:
        return night.pair
    if night.image is not None:
        opened = place.runner.open_night(night)
        if isinstance(opened, Failure):
            raise RefusedError(f"{end} can't be an end: {opened.reason}")
        return opened.environment.pair
    heads = place.nights.heads(night.at.date()) if place.source.kind is SourceKind.REGISTRY else ""
    if not isinstance(heads, CommitPair):
        why = night.gap_reason or "its pair is not known"
        raise RefusedError(f"{end} can't be an end: {'; '.join(filter(None, (why, heads)))}")
    place.say(f"{end} has no image ({night.gap_reason}): the heads at its end stand for it")
    return heads


def _night(place: Workplace, end: str) -> Night | None:
    """The night that an end of a range names by its label or its date; of releases the newest one at that date."""
    date = requests.parse_date(end)
    with place.database.begin() as connection:
        if date is not None and place.source.kind is SourceKind.RELEASES:
            nights = night_times(connection, place.source)
            before = [label for label, at, gap in nights if at.date() <= date and gap is None]
            if not before:
                raise RefusedError(f"no night of {place.source.name} is known on or before {end}")
            end = before[-1]
        found = find_night(connection, place.source, end)
    if found is not None:
        return found[1]
    night = None if requests.parse_pair(end) else place.nights.night(end)
    if night is not None and night.image is not None:  # as it was seen now is what the search goes by
        with place.database.begin() as connection:
            save_night(connection, night)
    return night


def _container(place: Workplace, asked: str | None, ends: Sequence[str]) -> Image | None:
    """The image in which pairs are built: the bad end's, where it has one; the good end's, a night's, or one by its digest."""
    if place.source.kind is not SourceKind.REGISTRY:
        if asked is not None:
            raise RefusedError(
                f"container = {asked!r} is not accepted with the source {place.source.name}, which has no images;"
                " accepted is a source of kind registry"
            )
        return None
    if asked is not None and asked.startswith("sha256:"):
        with place.database.begin() as connection:
            known = find_image(connection, place.source, asked)
    else:
        named = {"good": ends[:1], "bad": ends[1:], None: (ends[1], ends[0])}.get(asked, (str(asked),))
        nights = (_night(place, each) for each in named)
        known = next((each.image for each in nights if each is not None and each.image is not None), None)
    if known is None:
        raise RefusedError(
            f"container {asked or 'bad'!r}: no such image is known with the source {place.source.name};"
            " accepted is good, bad, the date of a night, or the digest of its image (sha256:…)"
        )
    return known
