"""What do all commands share: settings, a database, and how things are said?

Results go to standard output (as one JSON document with `--json`), progress and errors to standard error.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from stepwatch import settings as configuration
from stepwatch.settings import Settings
from storage.rows import Database

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


class Refusal(click.ClickException):
    """What was asked for can't be done; the sentence says why and what is accepted."""

    exit_code = 1


def finite(_: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Refuse what is no number, which no range does."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not accepted; accepted is a number", param=parameter)
    return value


def settings_in_force() -> Settings:
    """The settings, with `--state` over them: then the database is the one in that folder, whatever else is set."""
    loaded = configuration.load()
    state = click.get_current_context().find_root().params.get("state")
    return loaded if state is None else loaded.model_copy(update={"state": state, "database_url": None})


@contextlib.contextmanager
def opened() -> Iterator[tuple[Settings, Database]]:
    """The settings and the database that they lead to."""
    from stepwatch import wiring

    settings = settings_in_force()
    with wiring.open_database(settings) as database:
        yield settings, database


def say(text: str) -> None:
    """One line of progress, to standard error."""
    click.echo(text, err=True)


def write(text: str) -> None:
    """One line of result, to standard output."""
    click.echo(text)


def show_json(document: Any) -> None:
    """A JSON document on standard output; times in ISO 8601."""
    click.echo(json.dumps(document, indent=2, default=str, allow_nan=False))


def show_table(rows: Sequence[Mapping[str, Any]], columns: Iterable[str], *, empty: str) -> None:
    """Rows as a table, or one sentence where there are none."""
    if not rows:
        click.echo(empty)
        return
    # a pipe gets whole lines, not lines broken at 80 columns
    Console(width=None if sys.stdout.isatty() else 240, highlight=False, markup=False).print(
        table_of(rows, columns)
    )


def table_of(rows: Sequence[Mapping[str, Any]], columns: Iterable[str]) -> Table:
    """Rows as a table."""
    names = list(columns)
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")  # nothing is cut off, however narrow the terminal
    for row in rows:
        table.add_row(*("" if row.get(name) is None else str(row[name]) for name in names))
    return table


@contextlib.contextmanager
def progress(*, stderr: bool = True) -> Iterator[Progress]:
    """A progress display on standard error (the demo's is on standard output); lines printed meanwhile go above."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True)
    with Progress(*columns, console=console, transient=True, redirect_stdout=False) as display:
        yield display
