"""Commands for figures that were measured elsewhere: `replay`, `import-logs`."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from stepwatch.cli.frame import Refusal, as_json, finite, opened, say, show_json, write
from stepwatch.core.logs import LogNights, log_points, parse_files, parse_log
from stepwatch.core.model import Benchmark, Better, Point, title
from stepwatch.core.rules import Rule, Rulebook
from stepwatch.core.series_csv import parse_csv
from stepwatch.core.units import format_value
from stepwatch.jobs.replay import Replay
from stepwatch.settings import Settings

NAME = re.compile(r"[A-Za-z0-9][\w.()=-]{0,199}", re.ASCII)
RAW = re.compile(r"^OUT-\d\d-\d\d$")
FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
FILES = click.argument("files", nargs=-1, required=True, type=FILE)


def _log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what the lines of a log mean."""
    for option in (
        click.option("--strict", is_flag=True, help="End with exit code 1 where a line is rejected."),
        click.option(
            "--year",
            type=click.IntRange(1970, 2100),
            help="The year of the dates (default: the one in the first file's name).",
        ),
        click.option(
            "--better",
            type=click.Choice([each.value for each in Better]),
            default="higher",
            show_default=True,
        ),
        click.option("--unit", default="MLUPS", show_default=True),
        click.option(
            "--pattern",
            default=r"MLUPS: (\S+)",
            show_default=True,
            help="A regular expression whose first group is the value.",
        ),
    ):
        command = option(command)
    return command


def _threshold_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that stand in for the thresholds in the settings, and for what a rule says."""
    share = click.FloatRange(min=0, max=1, min_open=True, max_open=True)
    for option in (
        click.option(
            "--suspect-change",
            type=click.FloatRange(min=0, min_open=True),
            callback=finite,
            help="In place of the settings'.",
        ),
        click.option("--confirm-results", type=click.IntRange(min=1), help="In place of the settings'."),
        click.option("--min-effect", type=share, callback=finite, help="In place of the settings'."),
        click.option(
            "--noise", type=share, callback=finite, help="The known relative noise, such as 0.0005."
        ),
    ):
        command = option(command)
    return command


@click.command()
@click.argument("files", nargs=-1, type=FILE)
@click.option("--stored", metavar="NAME", help="A stored series in place of FILES, by its benchmark.")
@click.option("--machine", help="The machine of the stored series, where there are several.")
@click.option("--source", help="The source of the stored series, where there are several.")
@_log_options
@_threshold_options
@as_json
def replay(
    files: tuple[Path, ...],
    stored: str | None,
    machine: str | None,
    source: str | None,
    pattern: str,
    unit: str,
    better: str,
    year: int | None,
    *,
    strict: bool,
    as_json: bool,
    **thresholds: float | None,
) -> None:
    """Play a history night by night: what would have been said, and when?

    FILES are what `grep MLUPS OUT*` prints, or the raw files OUT-07-06 and so on, or one CSV with the columns time,value;
    they need no database. A stored series is played with the re-measurements that were made of it.
    """
    from stepwatch.cli.frame import settings_in_force
    from stepwatch.jobs import replay as job

    if bool(files) == bool(stored):
        raise Refusal("accepted is either FILES or --stored NAME")
    context = click.get_current_context()
    given = {
        name: context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        for name in ("unit", "better", "pattern", "year", "machine", "source")
    }
    for name in ("unit", "better", "pattern", "year") if stored else ("machine", "source"):
        if given[name]:
            raise Refusal(f"--{name} goes with {'FILES' if stored else '--stored'}")
    if files and files[0].suffix.lower() == ".csv":
        if not given["better"]:
            raise Refusal(
                "a CSV doesn't say which way is good; --better lower (a time) or higher (a rate) does"
            )
        unit = unit if given["unit"] else ""
    log = None
    try:
        if stored is not None:
            played = _play_stored(stored, machine, source, thresholds)
        else:
            own = _rulebook(settings_in_force(), thresholds).of("")
            log, points = _points(files, pattern, year)
            played = job.replay(
                points, better=Better(better), unit=unit, noise=own.noise, settings=own.triage
            )
    except ValueError as error:
        raise Refusal(str(error)) from None
    document = job.replay_json(played)
    if as_json:
        show_json(document)
    else:
        _show_replay(document, played.unit)
    if log is not None:
        _end(log, strict=strict)


def _show_replay(document: dict[str, list[dict[str, Any]]], unit: str) -> None:
    for alert in document["alerts"]:
        write(
            f"{alert['raised']}: {alert['kind']} in ({alert['after']}, {alert['through']}]: "
            f"{'from 0' if alert['change'] is None else format(alert['change'], '+.1%')} of {format_value(alert['baseline'], unit)}"
        )
    for dip in document["dips"]:
        write(f"dip from {dip['first']} to {dip['last']}: {dip['change']:+.1%} (nobody was told)")
    for gone in document["retracted"]:
        write(f"{gone['gone']}: taken back: ({gone['after']}, {gone['through']}]")
    if not any(document.values()):
        write("nothing would have been said")


def _points(
    files: Sequence[Path], pattern: str, year: int | None
) -> tuple[LogNights | None, Sequence[Point]]:
    """The nights of the files, and the log that they are from where it is one."""
    if files[0].suffix.lower() == ".csv":
        return None, _csv_points(files)
    log = _read(files, pattern, year)
    return log, log_points(log.nights)


def _rulebook(settings: Settings, thresholds: Mapping[str, float | None]) -> Rulebook:
    """The settings, and over every rule what the command line says."""
    from stepwatch import wiring

    book = wiring.rulebook(settings)
    said = {key: value for key, value in thresholds.items() if value is not None}
    return replace(book, rules=[*book.rules, Rule(match="", says=said, origin="the command line")])


def _play_stored(
    name: str, machine: str | None, source: str | None, thresholds: Mapping[str, float | None]
) -> Replay:
    from stepwatch.jobs.history import find_series, replay_stored
    from storage.rows import load_series

    with opened() as (settings, database), database.begin() as connection:
        number = find_series(connection, name, machine=machine, source=source)
        benchmark = load_series(connection, number).benchmark
        own = _rulebook(settings, thresholds).of(title(benchmark.name, benchmark.params))
        return replay_stored(connection, number, own)


def _csv_points(files: Sequence[Path]) -> list[Point]:
    """The nights of one CSV; their times are labels as written, in the order of the file."""
    if len(files) > 1:
        raise Refusal("accepted is one CSV at a time")
    try:
        series = parse_csv(_text(files[0]))
    except ValueError as error:
        raise Refusal(f"{files[0]}: {error}") from None
    if len(set(series.times)) < len(series.times):
        again = next(time for time in series.times if series.times.count(time) > 1)
        raise Refusal(f"{files[0]}: the time {again!r} is there twice")
    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return [
        Point(label=label, at=start + dt.timedelta(days=day), value=value)
        for day, (label, value) in enumerate(zip(series.times, series.values, strict=True))
    ]


@click.command("import-logs")
@FILES
@click.option("--benchmark", required=True, help="The name of the series, such as xlb.mlups.")
@_log_options
@click.option(
    "--machine", default="imported", show_default=True, help="The machine that they were measured on."
)
@click.option("--source", default="logs", show_default=True, help="A name for where the nights come from.")
@as_json
def import_logs(
    files: tuple[Path, ...],
    benchmark: str,
    pattern: str,
    unit: str,
    better: str,
    year: int | None,
    machine: str,
    source: str,
    *,
    strict: bool,
    as_json: bool,
) -> None:
    """Store the nights of a log as a series; importing twice changes nothing.

    The steps in it are told by the next `stepwatch deliver`, like any others.

    FILES are what `grep MLUPS OUT*` prints, or the raw files OUT-07-06 and so on.
    """
    from stepwatch import wiring
    from stepwatch.jobs import import_logs as job

    for option, name in (("benchmark", benchmark), ("machine", machine), ("source", source)):
        if not NAME.fullmatch(name):
            raise Refusal(
                f"--{option} {name!r} is not accepted; accepted are letters, digits and . _ - ( ) = up to 200"
            )
    log = _read(files, pattern, year)
    with opened() as (settings, database):
        done = job.import_logs(
            database,
            log.nights,
            Benchmark(name=benchmark, version="1", metric="value", unit=unit, better=Better(better)),
            source=source,
            machine=machine,
            rules=wiring.rulebook(settings),
        )
    for label, old, new in done.conflicts:
        say(f"{label}: {old:g} is stored and stays; the log says {new:g}")
    if as_json:
        show_json(
            {
                "nights": done.nights,
                "measured": done.measured,
                "failed": done.failed,
                "gaps": done.gaps,
                "told": done.told,
            }
        )
    else:
        write(f"{done.nights} nights: {done.measured} measured, {done.failed} failed, {done.gaps} gaps")
        if done.told:
            write(f"{done.told} regressions or improvements are new: stepwatch regressions list")
    _end(log, strict=strict, conflicts=len(done.conflicts))


def _read(files: Sequence[Path], pattern: str, year: int | None) -> LogNights:
    """The nights of the files; the lines that were not taken go to standard error with their numbers."""
    if files[0].suffix.lower() == ".csv":
        raise Refusal(
            f"{files[0]} is no log; accepted is what `grep MLUPS OUT*` prints (`replay` and `detect` read a CSV)"
        )
    found = re.search(r"(19|20)\d\d", files[0].name)
    if year is None and found is None:
        raise Refusal(f"{files[0]} has no year in its name; --year gives it")
    chosen = year if year is not None else int(found.group() if found else 0)
    texts = {file: _text(file) for file in files}
    raw = [file for file in files if RAW.match(file.name)]
    if raw and len(raw) < len(files):
        raise Refusal("raw files (OUT-07-06) and the output of grep can't be mixed")
    try:
        if raw:
            log = parse_files({file.name: texts[file] for file in files}, pattern, chosen)
        else:
            log = parse_log("\n".join(texts.values()), pattern, chosen)
    except ValueError as error:
        raise Refusal(str(error)) from None
    for each in log.rejected:
        where = each.name or (files[0] if len(files) == 1 else "the files together")
        say(f"{where}, line {each.number}: {each.line!r} is rejected: {each.why}")
    if not log.nights:
        raise Refusal(
            f"{files[0]}: no line is `OUT-month-day:text`; accepted is what `grep MLUPS OUT*` prints"
        )
    if all(night.value is None for night in log.nights):
        raise Refusal(f"{files[0]}: the pattern {pattern!r} matches no line")
    return log


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Refusal(f"{file}: not a text file") from None


def _end(log: LogNights, *, strict: bool, conflicts: int = 0) -> None:
    if strict and (log.rejected or conflicts):
        raise Refusal(f"{len(log.rejected) + conflicts} lines were rejected (--strict)")


COMMANDS = (replay, import_logs)
