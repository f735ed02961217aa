"""Commands of the search: `bisect start|tick|status|show|resume|cancel`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from stepwatch.cli.frame import Refusal, as_json, opened, say, show_json, show_table, table_of, write
from stepwatch.core.model import CommitInfo

COLUMNS = ("at", "jax", "xla", "outcome", "verdict", "value", "repeats", "untried_before", "reason")


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
@click.option("--pairing", help="Which XLA a JAX commit is tried with: clock (default) or pinned.")
@click.option(
    "--container", help="The image in which pairs are built: bad (default), good, a date, or sha256:…"
)
@click.option("--fix", metavar="xla=jaxlib==X", help="A release that stands in for a repository, held still.")
@click.option("--budget-probes", type=int, help="How many pairs may be tried.")
@click.option("--budget-minutes", type=float, help="For how long, in minutes of the machine.")
@click.option("--repo", "repos", metavar="jax=PATH", multiple=True, help="Where a repository is read from.")
@click.option("--dry-run", is_flag=True, help="Say what would be searched, and search nothing.")
@as_json
def start(*, repos: tuple[str, ...], dry_run: bool, as_json: bool, **conf: Any) -> None:
    """Open a bisection and carry it out; without options, of the oldest incident that waits for one."""
    from stepwatch import wiring
    from stepwatch.jobs.open_bisection import expected, find_range

    urls = dict(_repository(each) for each in repos)
    with opened() as (settings, database):
        if dry_run:
            place, request = wiring.requested(settings, database, conf, say=say, repositories=urls)
            found = find_range(place, request)
            if as_json:
                ends = [
                    {"jax": each.jax.ref, "xla": each.xla.ref}
                    for each in (found.path[0].pair, found.path[-1].pair)
                ]
                hours = sum(each.hour is not None for each in found.path)
                show_json({"good": ends[0], "bad": ends[1], "candidates": len(found.path), "hours": hours})
            else:
                write(f"{found.path[0].pair} .. {found.path[-1].pair}: {expected(found)}")
            return
        identity = wiring.start_bisection(settings, database, conf, say=say, repositories=urls)
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


def _repository(text: str) -> tuple[str, str]:
    """The name and the URL of `jax=PATH`; a path from here on."""
    name, equals, where = text.partition("=")
    if not equals or not where:
        raise Refusal(f"--repo {text!r} is not accepted; accepted is jax=PATH, or jax=URL")
    path = Path(where).expanduser()
    return name, str(path.resolve()) if path.exists() else where


def _carry_out(settings: Any, database: Any, identity: Mapping[str, Any], *, as_json: bool) -> None:
    from stepwatch import wiring
    from stepwatch.jobs import bisect as job
    from stepwatch.jobs.deliver import deliver

    number = identity["bisection"]
    with _kept(number), _live(database, number) as tell:
        place = wiring.bisection_place(settings, database, identity, say=tell)
        for phase in (job.search_hours, job.search_commits, job.attribute):
            while not phase(place, number):
                pass
        job.conclude(place, number)
    # a JSON document stands alone on standard output
    deliver(database, wiring.transports(settings, say if as_json else write), say)
    _show(database, number, as_json=as_json)


@contextmanager
def _kept(number: int) -> Iterator[None]:
    """An interruption says how the search goes on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Refusal(
            f"interrupted; what was measured is kept: `stepwatch bisect resume {number}` goes on, "
            f"`stepwatch bisect cancel {number}` ends it"
        ) from None


@contextmanager
def _live(database: Any, number: int) -> Iterator[Callable[[str], None]]:
    """What says how a search goes on; at a terminal, above a table of what has been tried by now."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if not console.is_terminal:
        yield say
        return
    with Live(console=console, transient=True) as live:

        def tell(text: str) -> None:
            live.console.print(text, markup=False, highlight=False)
            live.update(table_of(_rows(_read(database, number)), COLUMNS))

        yield tell


def _read(database: Any, number: int) -> dict[str, Any]:
    from stepwatch.jobs.probe import meanings
    from storage.reading import bisection as read

    with database.begin() as connection:
        found = read(connection, number)
    if found is None:
        raise Refusal(f"there is no bisection {number}; `stepwatch bisect status` lists them")
    meant = meanings(database, number)
    for probe in found["probes"]:
        one = meant.get((probe["jax"], probe["xla"]))
        probe["verdict"] = one and one.verdict
        probe["untried_before"] = one and one.untried
    return found


def _show(database: Any, number: int, *, as_json: bool) -> None:
    found = _read(database, number)
    if as_json:
        show_json(found)
        return
    write(f"bisection {number} of ({found['good']}, {found['bad']}]: {found['state']}")
    for culprit in found["culprits"]:
        write(f"{culprit['kind']}: {culprit['reason']}")
        for line in _details(culprit):
            write(f"    {line}")
    write("a value is a multiple of the good end, measured beside it")
    show_table(_rows(found), COLUMNS, empty="nothing tried yet")


def _rows(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The probes of a bisection as people read them."""
    return [
        {
            **probe,
            "jax": probe["jax"][:12],
            "xla": probe["xla"][:12],
            "at": f"{probe['at']:%Y-%m-%d %H:%M}",
            "value": None if probe["value"] is None else f"x {probe['value']:.3g}",
        }
        for probe in found["probes"]
    ]


def _details(culprit: Mapping[str, Any]) -> Iterator[str]:
    """What more is known of a culprit, a line each."""
    if culprit["author"] is not None:
        said = CommitInfo(**{key: culprit[key] for key in ("author", "committed_at", "subject", "url")})
        yield f"{culprit['repository']} {culprit['commit']}: {said}"
    if culprit["low"] is not None:
        baseline = (
            "" if culprit["baseline"] is None else f", the good end's value being {culprit['baseline']:.4g}"
        )
        yield f"changed by {culprit['low']:+.1%} to {culprit['high']:+.1%} of its parent{baseline}"
        for name, key in (("before", "old"), ("after", "new")):
            yield f"{name}: {' '.join(f'{value:.4g}' for value in culprit[key])}"


COMMANDS = (bisect,)
