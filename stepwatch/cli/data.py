"""Commands for figures that were measured elsewhere: `replay`, `import-logs`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from stepwatch.cli.frame import Refusal, as_json, opened, say, show_json, write
from stepwatch.core.logs import LogNights, log_points, parse_files, parse_log
from stepwatch.core.model import Benchmark, Better

NAME = re.compile(r"[A-Za-z0-9][\w.()=-]{0,199}", re.ASCII)
RAW = re.compile(r"^OUT-\d\d-\d\d$")
FILES = click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False, exists=True)
)


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
            default=r"MLUPS: ([\d.]+)",
            show_default=True,
            help="A regular expression whose first group is the value.",
        ),
    ):
        command = option(command)
    return command


@click.command()
@FILES
@_log_options
@click.option(
    "--noise",
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    help="The known relative noise, such as 0.0005.",
)
@as_json
def replay(
    files: tuple[Path, ...],
    pattern: str,
    unit: str,
    better: str,
    year: int | None,
    noise: float | None,
    *,
    strict: bool,
    as_json: bool,
) -> None:
    """Play a log night by night: what would have been said, and when? Needs no database.

    FILES are what `grep MLUPS OUT*` prints, or the raw files OUT-07-06 and so on.
    """
    from stepwatch import wiring
    from stepwatch.cli.frame import settings_in_force
    from stepwatch.jobs import replay as job

    log = _read(files, pattern, year)
    try:
        played = job.replay(
            log_points(log.nights),
            better=Better(better),
            unit=unit,
            noise=noise,
            settings=wiring.rulebook(settings_in_force()).triage,
        )
    except ValueError as error:
        raise Refusal(str(error)) from None
    document = job.replay_json(played)
    if as_json:
        show_json(document)
    else:
        for alert in document["alerts"]:
            write(
                f"{alert['raised']}: {alert['kind']} in ({alert['after']}, {alert['through']}]: "
                f"{alert['change']:+.1%} of {alert['baseline']:.1f} {unit}"
            )
        for dip in document["dips"]:
            write(f"dip from {dip['first']} to {dip['last']}: {dip['change']:+.1%} (nobody was told)")
        for gone in document["retracted"]:
            write(f"{gone['gone']}: taken back: ({gone['after']}, {gone['through']}]")
    _end(log, strict=strict)


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
