"""Which commands are there, and how does one end?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from stepwatch.cli import bench, bisection, data, judge, nights, services, watch
from stepwatch.cli.airflow_client import AirflowError
from stepwatch.jobs.bench import InterruptedRunError
from stepwatch.jobs.open_bisection import RefusedError
from stepwatch.jobs.resolve import NoNightError
from stepwatch.runners.protocol import UnreachableError
from stepwatch.runners.registry import RegistryError
from stepwatch.settings import ConfigError
from stepwatch.stack import StackError
from storage.engine import DatabaseError, DatabaseUnreachableError

EXPECTED = (
    AirflowError,
    ConfigError,
    DatabaseUnreachableError,
    InterruptedRunError,
    NoNightError,
    RefusedError,
    RegistryError,
    StackError,
    UnreachableError,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder with the embedded database and what belongs to it (the demo's: .stepwatch/demo); it counts over"
    " STEPWATCH_DATABASE_URL.",
)
def command(state: Path | None) -> None:
    """stepwatch: nightly benchmarks of JAX and XLA, the steps in them, and the commits that did it."""
    del state  # read by `frame.settings_in_force`


for module in (nights, bench, data, watch, judge, bisection, services):
    for each in module.COMMANDS:
        command.add_command(each)


def main() -> None:
    """Run a command; an error is one sentence on standard error and a non-zero exit code."""
    try:
        command(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; what was measured is kept, the same command goes on from there", err=True)
        sys.exit(130)
    except EXPECTED as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except DatabaseError as error:
        click.echo(f"Error: the database refused: {str(error.orig).strip().splitlines()[0]}", err=True)
        sys.exit(1)
    except OSError as error:
        click.echo(f"Error: {error.filename or 'the system'}: {error.strerror or error}", err=True)
        sys.exit(1)
