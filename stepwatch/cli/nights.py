"""Commands that measure: `nightly`, `backfill`, `detect`, `deliver`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from stepwatch.cli.frame import Refusal, as_json, finite, opened, progress, say, show_json, write
from stepwatch.core.model import Origin
from stepwatch.jobs.resolve import NoNightError
from storage.rows import Database


def _where(command: Any) -> Any:
    """Add the options that say where a suite is run."""
    for option in (
        click.option("--suite", help="The suite to run (default: `suite` in the settings)."),
        click.option("--source", help="The source of the nights (default: `source` in the settings)."),
        click.option("--machine", help="The machine (default: `machine` in the settings)."),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("label")
@_where
@click.option("--fresh", is_flag=True, help="Measure again what has been measured.")
def nightly(label: str, machine: str | None, source: str | None, suite: str | None, *, fresh: bool) -> None:
    """Measure one night (LABEL: a release such as 0.10.2, or a date) and say what follows."""
    from stepwatch import wiring
    from stepwatch.jobs.nightly import nightly as run

    with opened() as (settings, database):
        place = wiring.workplace(settings, database, say=say, machine=machine, source=source, suite=suite)
        run(place, label, fresh=fresh)
        failure = _failure(database, label)
    if failure is not None:
        raise Refusal(f"the night {label} was not measured: {failure}")


def _failure(database: Database, label: str) -> str | None:
    """Why the last attempt of a night failed as a whole."""
    from storage.reading import read

    query = "select outcome, reason from reporting.runs where label = :label order by attempt desc limit 1"
    with database.begin() as connection:
        rows = read(connection, query, label=label)
    return f"{rows[0]['outcome']}: {rows[0]['reason']}" if rows and rows[0]["outcome"] != "ok" else None


@click.command()
@click.argument("labels", nargs=-1)
@_where
@click.option("--fresh", is_flag=True, help="Measure again what has been measured.")
def backfill(
    labels: tuple[str, ...], machine: str | None, source: str | None, suite: str | None, *, fresh: bool
) -> None:
    """Measure several nights in order (default: the source's ladder); what is there already is kept."""
    from stepwatch import wiring
    from stepwatch.jobs.nightly import nightly as run

    with opened() as (settings, database), progress() as display:
        place = wiring.workplace(
            settings, database, say=display.console.print, machine=machine, source=source, suite=suite
        )
        chosen = labels or tuple(place.nights.labels())
        task = display.add_task("nights", total=len(chosen))
        for label in chosen:
            display.update(task, description=f"night {label}")
            try:
                run(place, label, origin=Origin.BACKFILL, fresh=fresh)
            except NoNightError as nothing:
                say(str(nothing))
            display.advance(task)


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--noise",
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    callback=finite,
    help="The known relative noise of FILE's values, such as 0.0005.",
)
@as_json
@_where
def detect(
    file: Path | None,
    noise: float | None,
    machine: str | None,
    source: str | None,
    suite: str | None,
    *,
    as_json: bool,
) -> None:
    """Find the steps in FILE (CSV with the columns time,value), or in the stored nights where no FILE is given."""
    if file is not None:
        _detect_in_file(file, noise, as_json=as_json)
        return
    if noise is not None:
        raise Refusal("--noise goes with a FILE; for stored nights it is thresholds.noise in the settings")
    from stepwatch import wiring
    from stepwatch.jobs.detect import detect as find

    with opened() as (settings, database):
        place = wiring.workplace(settings, database, say=say, machine=machine, source=source, suite=suite)
        suspects = find(place).suspects
    if as_json:
        show_json({"suspects": suspects})
    else:
        write(f"{suspects} boundaries are to be measured again")


def _detect_in_file(file: Path, noise: float | None, *, as_json: bool) -> None:
    from stepwatch.core.detection import detect as find
    from stepwatch.core.series_csv import detection_json, parse_csv

    try:
        series = parse_csv(file.read_text(encoding="utf-8"))
        found = find(series.values, noise=noise)
        document = detection_json(series, found)
    except (ValueError, UnicodeDecodeError) as error:
        raise Refusal(f"{file}: {error}") from None
    if as_json:
        show_json(document)
        return
    levels = [segment["level"] for segment in document["segments"]]
    for step, old, new in zip(document["steps"], levels, levels[1:], strict=False):
        write(f"step in ({step['after']}, {step['through']}]: x {step['ratio']:.4g} ({old:.6g} -> {new:.6g})")
    for drift in document["drifts"]:
        write(
            f"drift from {drift['first']} to {drift['last']}: {drift['slope']:+.3%} a night, {drift['total']:+.1%} in total"
        )
    if not document["steps"]:
        write("no step")
    if series.values and len(series.values) - 1 in found.odd:
        off = series.values[-1] / levels[-1] - 1
        write(
            f"the last value, at {series.times[-1]}, is {off:+.1%} off the level of {levels[-1]:.6g}:"
            " a step or an odd one, which the next values show"
        )


@click.command()
def deliver() -> None:
    """Send what has been decided but not yet said."""
    from stepwatch import wiring
    from stepwatch.jobs.deliver import deliver as send

    with opened() as (settings, database):
        done = send(database, wiring.transports(settings, write), say)
    say(f"{done.sent} messages sent")
    if done.waiting:
        raise Refusal(f"{done.waiting} messages could not be sent and wait for the next `stepwatch deliver`")


@click.command()
@as_json
def oversee(*, as_json: bool) -> None:
    """Look whether there is something odd about the detector itself; what is odd is told, once a day."""
    from stepwatch.jobs.oversee import oversee as look

    with opened() as (_, database):
        odd = look(database)
    if as_json:
        show_json(odd)
        return
    for sentence in odd:
        write(sentence)
    if not odd:
        say("nothing is odd")


@click.command()
@click.option("--machine", help="The machine (default: `machine` in the settings).")
@as_json
def janitor(machine: str | None, *, as_json: bool) -> None:
    """Remove containers that were left behind, and images that no open incident, control or new night needs."""
    from stepwatch import wiring
    from stepwatch.jobs.janitor import tidy

    with opened() as (settings, database):
        place = wiring.workplace(settings, database, say=lambda _: None, machine=machine)
        removed = tidy(place)
    if as_json:
        show_json(removed)
        return
    for each in removed:
        write(f"removed: {each}")
    if not removed:
        say("nothing is left to remove")


COMMANDS = (nightly, backfill, detect, deliver, oversee, janitor)
