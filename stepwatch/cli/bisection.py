"""Commands of the search: `bisect start|tick|status|show|resume|cancel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from stepwatch.cli.frame import Refusal, as_json, opened, say, show_json, show_table, write


@click.group()
def bisect() -> None:
    """Search a range for the commits that did it."""


@bisect.command()
@click.option("--incident", type=int, help="The incident whose range is searched.")
@click.option("--benchmark", help="A benchmark, by its name or its name with parameters.")
@click.option("--good", help="The good end: a date, a release, or jax@…+xla@….")
@click.option("--bad", help="The bad end.")
@click.option("--machine", help="Where (default: the incident's, else as configured).")
@click.option("--source", help="The source of the nights (default: the incident's, else as configured).")
@click.option("--policy", help="explore, comb or exhaustive (default: as configured).")
@as_json
def start(*, as_json: bool, **conf: Any) -> None:
    """Open a bisection and carry it out; without options, of the oldest incident that waits for one."""
    from stepwatch import wiring

    with opened() as (settings, database):
        identity = wiring.start_bisection(settings, database, conf, say=say)
        _carry_out(settings, database, identity, as_json=as_json)


@bisect.command()
@as_json
def tick(*, as_json: bool) -> None:
    """Carry out a bisection of every alerted incident that waits for one, oldest first."""
    from stepwatch import wiring

    with opened() as (settings, database):
        waiting = wiring.start_waiting(settings, database, say=say)
        if not waiting:
            say("no alerted incident waits for a bisection")
        for identity in waiting:
            _carry_out(settings, database, identity, as_json=as_json)
        if as_json and not waiting:
            show_json([])


@bisect.command()
@as_json
def status(*, as_json: bool) -> None:
    """List all bisections."""
    from storage.reading import bisections

    with opened() as (_, database), database.begin() as connection:
        rows = bisections(connection)
    if as_json:
        show_json(rows)
        return
    columns = (
        "bisection_id",
        "state",
        "incident_id",
        "benchmark",
        "good",
        "bad",
        "policy",
        "probes",
        "reason",
    )
    show_table(rows, columns, empty="no bisections")


@bisect.command()
@click.argument("bisection", type=int)
@as_json
def show(bisection: int, *, as_json: bool) -> None:
    """Show what a bisection has tried and what it ended with."""
    with opened() as (_, database):
        _show(database, bisection, as_json=as_json)


@bisect.command()
@click.argument("bisection", type=int)
@as_json
def resume(bisection: int, *, as_json: bool) -> None:
    """Go on with a bisection that was interrupted."""
    from stepwatch import wiring

    with opened() as (settings, database):
        identity = wiring.find_bisection(database, bisection)
        _carry_out(settings, database, identity, as_json=as_json)


@bisect.command()
@click.argument("bisection", type=int)
def cancel(bisection: int) -> None:
    """End an open bisection; what works at it stops before its next probe."""
    from stepwatch import wiring
    from stepwatch.jobs.bisect import cancel as end

    with opened() as (_, database):
        wiring.find_bisection(database, bisection)
        if not end(database, bisection):
            raise Refusal(f"bisection {bisection} is not open")
    write(f"bisection {bisection} is cancelled")


def _carry_out(settings: Any, database: Any, identity: Mapping[str, Any], *, as_json: bool) -> None:
    from stepwatch import wiring
    from stepwatch.jobs import bisect as job
    from stepwatch.jobs.deliver import deliver

    place = wiring.workplace(
        settings, database, say=say, machine=identity["machine"], source=identity["source"]
    )
    number = identity["bisection"]
    for phase in (job.search, job.attribute):
        while not phase(place, number):
            pass
    job.conclude(place, number)
    deliver(database, place.transports, say)
    _show(database, number, as_json=as_json)


def _show(database: Any, number: int, *, as_json: bool) -> None:
    from storage.reading import bisection as read

    with database.begin() as connection:
        found = read(connection, number)
    if found is None:
        raise Refusal(f"there is no bisection {number}; `stepwatch bisect status` lists them")
    if as_json:
        show_json(found)
        return
    write(f"bisection {number} of ({found['good']}, {found['bad']}]: {found['state']}")
    for culprit in found["culprits"]:
        write(f"{culprit['kind']}: {culprit['reason']}")
    write("a value is a multiple of the good end, measured beside it")
    for probe in found["probes"]:
        probe["value"] = None if probe["value"] is None else f"x {probe['value']:.3g}"
    show_table(
        found["probes"], ("jax", "xla", "outcome", "value", "repeats", "reason"), empty="nothing tried yet"
    )


COMMANDS = (bisect,)
