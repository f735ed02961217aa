"""Commands that look: `regressions`, `benchmarks`, `report`, `config`, `db`."""

from __future__ import annotations

import datetime as dt
import getpass
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from stepwatch.cli.frame import Refusal, as_json, opened, say, settings_in_force, show_json, show_table, write
from stepwatch.core.model import Action
from stepwatch.core.standing import QUIET, Said


@click.group()
def regressions() -> None:
    """Regressions and improvements that stand."""


@regressions.command("list")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also those of which nobody was told, and what is dismissed or snoozed.",
)
@as_json
def list_regressions(*, everything: bool, as_json: bool) -> None:
    """List them, newest range last."""
    from stepwatch.core.units import format_change
    from storage.reading import regressions as read

    with opened() as (_, database), database.begin() as connection:
        rows = [
            row
            for row in read(connection)
            if everything or (row["raised"] is not None and row["disposition"] not in QUIET)
        ]
    if as_json:
        show_json(rows)
        return
    for row in rows:
        row["change"] = format_change(old=row["baseline"], new=row["level"])
        row["params"] = ", ".join(f"{key}={value}" for key, value in row["params"].items())
        row["people"] = " ".join(
            word for word in (row["disposition"].replace("none", ""), row["assignee"]) if word
        )
    columns = (
        "regression_id",
        "incident_id",
        "direction",
        "state",
        "people",
        "benchmark",
        "params",
        "after",
        "through",
        "change",
    )
    show_table(rows, columns, empty="no regressions")


def _acting(action: Action, help_text: str, *options: Callable[[Any], Any]) -> click.Command:
    """The command that says one thing of regressions."""

    def say_it(
        numbers: tuple[int, ...],
        incident: int | None,
        author: str | None,
        until: dt.datetime | None = None,
        assignee: str | None = None,
        reason: str | None = None,
    ) -> None:
        from stepwatch.jobs.standing import say as store

        if bool(numbers) == (incident is not None):
            raise Refusal("accepted is either one or more REGRESSIONS, or --incident")
        said = Said(
            action=action,
            author=author or getpass.getuser(),
            until=until.replace(tzinfo=dt.UTC) if until else None,
            assignee=assignee,
            reason=reason,
        )
        with opened() as (_, database):
            done = store(database, said, regressions=numbers, incident=incident)
        for number in done:
            write(f"regression {number}: {said.text}")

    command: Any = say_it
    for option in (
        *options,
        click.option("--by", "author", help="Who says so (default: you)."),
        click.option("--incident", type=int, help="All of an incident, in place of REGRESSIONS."),
        click.argument("numbers", metavar="[REGRESSIONS]...", nargs=-1, type=int),
    ):
        command = option(command)
    return regressions.command(action.value, help=help_text)(command)


_REMARK = click.option("--reason", help="A remark.")
_acting(Action.ACK, "Say that somebody looks at it.", _REMARK)
_acting(
    Action.SNOOZE,
    "Hear nothing of it, and search nothing, until a UTC day.",
    _REMARK,
    click.option(
        "--until", type=click.DateTime(["%Y-%m-%d"]), required=True, help="The day, such as 2027-01-05."
    ),
)
_acting(
    Action.ASSIGN,
    "Say whom it is for.",
    _REMARK,
    click.option("--to", "assignee", required=True, help="A name."),
)
_acting(
    Action.DISMISS,
    "Hear nothing more of it, for a reason.",
    click.option("--reason", required=True, help="Why."),
)
_acting(Action.REOPEN, "Take back what was said of it.", _REMARK)


@regressions.command("show")
@click.argument("regression_id", type=int)
@as_json
def show_regression(regression_id: int, *, as_json: bool) -> None:
    """Show one: its points, its evidence, what a bisection found."""
    from stepwatch.core.model import title
    from stepwatch.core.units import format_change, format_value
    from storage.reading import regression as read

    with opened() as (_, database), database.begin() as connection:
        found = read(connection, regression_id)
    if found is None:
        raise Refusal(f"there is no regression {regression_id}; `stepwatch regressions list` names them")
    if as_json:
        show_json(found)
        return
    unit = found["unit"]
    write(f"{found['direction']}, {found['state']}: {title(found['benchmark'], found['params'])}")
    write(f"in ({found['after']}, {found['through']}] of {found['source']} on {found['machine']}")
    write(
        f"{format_value(found['baseline'], unit)} -> {format_value(found['level'], unit)}"
        f" ({format_change(old=found['baseline'], new=found['level'])} against the level before)"
    )
    write(f"told when the newest night was {found['raised']}" if found["raised"] else "nobody was told yet")
    for remark in found["remarks"]:
        said = {key: remark[key] for key in ("author", "until", "assignee", "reason")}
        write(f"{remark['said_at']:%Y-%m-%d %H:%M}: {Said(action=Action(remark['action']), **said).text}")
    for evidence in found["evidence"]:
        write(f"measured again: {evidence['verdict']}: {evidence['reason']}")
    for culprit in found["culprits"]:
        write(f"culprit: {culprit['reason']}")
    rows = [_in_words(point, found["through"], unit) for point in found["points"]]
    show_table(rows, ("night", "value", "interval", "what is to be known"), empty="no points")


def _in_words(point: dict[str, Any], through: str, unit: str) -> dict[str, str]:
    """A night of a series: its value, or what happened instead."""
    from stepwatch.core.units import format_value

    def shown(key: str) -> str:
        return format_value(point[key], unit)

    measured = point["value"] is not None
    happened = ": ".join(word for word in (point["outcome"], point["reason"]) if word) or "not measured"
    known = list(point["warnings"] or ()) if measured else [happened]
    if point["label"] == through:
        known.insert(0, "first on the new level")
    return {
        "night": point["label"],
        "value": shown("value") if measured else "",
        "interval": f"{shown('low')} to {shown('high')}" if measured and point["low"] is not None else "",
        "what is to be known": "; ".join(known),
    }


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also those that give results again.")
@as_json
def failures(*, everything: bool, as_json: bool) -> None:
    """List the benchmarks that give no result any more: they crash, hang, are wrong, or are skipped."""
    from storage.reading import read

    with opened() as (_, database), database.begin() as connection:
        found = read(connection, "select * from reporting.failures order by failure_id")
    rows = [row for row in found if everything or row["recovered"] is None]
    if as_json:
        show_json(rows)
        return
    for row in rows:
        row["params"] = ", ".join(f"{key}={value}" for key, value in row["params"].items())
    columns = ("incident_id", "benchmark", "params", "outcome", "after", "through", "recovered", "reason")
    show_table(rows, columns, empty="every benchmark gives results")


@click.group()
def benchmarks() -> None:
    """What has been measured, and the settings that hold for it."""


@benchmarks.command("list")
@as_json
def list_benchmarks(*, as_json: bool) -> None:
    """List the benchmarks that have judged series."""
    from storage.reading import benchmarks as read

    with opened() as (_, database), database.begin() as connection:
        rows = read(connection)
    if as_json:
        show_json(rows)
        return
    for row in rows:
        row["params"] = ", ".join(f"{key}={value}" for key, value in row["params"].items())
        row["machines"] = ", ".join(row["machines"])
    show_table(
        rows, ("benchmark", "params", "metric", "unit", "better", "machines"), empty="nothing is stored yet"
    )


@benchmarks.command("show")
@click.argument("name")
@as_json
def show_benchmark(name: str, *, as_json: bool) -> None:
    """Show the settings that hold for NAME, where each comes from, and why its series began where another ended.

    NAME is a benchmark's, with parameters or without: then each of its cases is shown. A name of which nothing is stored
    is taken as it is, so that a rule can be tried before the first night.
    """
    from stepwatch import wiring
    from stepwatch.core.model import title
    from stepwatch.jobs.overlap import segment_text
    from storage.reading import benchmarks as read
    from storage.segments import segments

    with opened() as (settings, database), database.begin() as connection:
        cases = list(dict.fromkeys(title(row["benchmark"], row["params"]) for row in read(connection)))
        begun = list(segments(connection).values())
    chosen = [case for case in cases if name in {case, case.partition("(")[0]}]
    book = wiring.rulebook(settings)
    found = {case: book.settings(case) for case in chosen or [name]}
    for row in begun:
        case = title(row["benchmark"], row["params"])
        if case in found:
            key = f"{row['metric']} on {row['machine']}"
            found[case][key] = (segment_text(row), f"source {row['source']}")
    if as_json:
        show_json(
            {
                case: {key: {"value": value, "from": origin} for key, (value, origin) in said.items()}
                for case, said in found.items()
            }
        )
        return
    if not chosen:
        say(f"nothing is stored of {name}; `stepwatch benchmarks list` names what is")
    for case, said in found.items():
        write(case)
        rows = [{"key": key, "value": value, "from": origin} for key, (value, origin) in said.items()]
        show_table(
            [{**row, "value": _said(row["value"])} for row in rows], ("key", "value", "from"), empty=""
        )


def _said(value: object) -> str:
    """A value as the file of settings has it."""
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else str(value)


@click.command()
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), help="Where to (default: STATE/report.html)."
)
def report(out: Path | None) -> None:
    """Write a self-contained HTML report and print its path."""
    from stepwatch.jobs.report import report as make

    if out is not None and (not out.name or not out.parent.is_dir() or (out.exists() and not out.is_file())):
        raise Refusal(f"--out {out} is not accepted; accepted is a file in a folder that is there")
    with opened() as (settings, database):
        path = make(database, out or settings.state / "report.html")
    write(str(path))


@click.group()
def config() -> None:
    """The settings."""


@config.command("check")
def check_config() -> None:
    """Say whether the settings are right, and which file they come from."""
    from stepwatch import settings as configuration
    from stepwatch import wiring

    settings = settings_in_force()
    for name in settings.suites:
        wiring.chosen_suite(settings, name)
    for name in settings.machines:
        wiring.runner(settings, name, wiring.source_of(settings, name))
    write(f"{configuration.config_file() or 'no file, all defaults'}: fine")


@config.command("show")
@as_json
def show_config(*, as_json: bool) -> None:
    """Print the settings in force; secrets are left out."""
    from storage.engine import without_password

    document: dict[str, Any] = settings_in_force().model_dump(mode="json")
    for holder, key in (
        (document["transports"]["slack"], "token"),
        *((each, "password") for each in document["sources"].values() if "password" in each),
    ):
        holder[key] = "set" if holder[key] else ""
    if document["database_url"]:
        document["database_url"] = without_password(document["database_url"])
    if as_json:
        show_json(document)
        return
    for key, value in _flat(document):
        write(f"{key} = {value}")


@click.group()
def db() -> None:
    """The database."""


@db.command("migrate")
def migrate_database() -> None:
    """Bring the schema to the newest version."""
    with opened():
        say("the schema is up to date")


@db.command("url")
def database_url() -> None:
    """Print where the database is, with its password, for `psql` and the like."""
    from stepwatch import wiring

    settings = settings_in_force()
    services = wiring.local_stack(settings).status()
    url = settings.database_url or (services and services.database_url)
    if not url:
        raise Refusal("the embedded database is not running; `stepwatch up` starts it and leaves it running")
    write(url)


def _flat(document: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for key, value in document.items():
        rows += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(prefix + key, value)]
    return rows


COMMANDS = (regressions, failures, benchmarks, report, config, db)
