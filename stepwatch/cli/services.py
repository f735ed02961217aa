"""Commands of the services on this machine: `demo`, `up`, `down`, `doctor`."""

from __future__ import annotations

import click

from stepwatch.cli.frame import Refusal, as_json, progress, say, settings_in_force, show_json, write
from stepwatch.stack import StackError
from storage.engine import DatabaseUnreachableError


@click.command()
@click.option("--fresh", is_flag=True, envvar="FRESH", help="Measure again what earlier runs have stored.")
def demo(*, fresh: bool) -> None:
    """From nothing to a named culprit: real JAX releases as nights, by a real Airflow, on this machine."""
    from stepwatch.cli.demo import play
    from stepwatch.stack import end_with_make

    end_with_make()
    with progress(stderr=False) as display:
        play(settings_in_force(), display, fresh=fresh)


@click.command()
def up() -> None:
    """Start Postgres and Airflow, leave them running, and print where the page is and how to log in."""
    from stepwatch import wiring

    settings = settings_in_force()
    services = wiring.local_stack(settings).up(on_event=say)
    with wiring.open_database(settings):
        pass  # the newest schema is there before the first DAG looks for it
    write(f"Airflow:   {services.airflow_url}")
    write(f"login:     {services.login}")
    write(f"password:  {services.password}")
    write(
        f"airflow by hand: . {settings.state}/up/env, then .venv/bin/airflow …; `stepwatch down` ends it all"
    )


@click.command()
def down() -> None:
    """End what `up` has started."""
    from stepwatch import wiring

    ended = wiring.local_stack(settings_in_force()).down()
    for line in ended:
        write(f"ended: {line}")
    if not ended:
        write("nothing was running")


@click.command()
@as_json
def doctor(*, as_json: bool) -> None:
    """Say what is wrong on this machine, and what to do about it."""
    from stepwatch import wiring
    from stepwatch.jobs.doctor import Grade, examine, examine_stored, unreachable

    settings = settings_in_force()
    source = wiring.source_of(settings, settings.machine)
    findings = examine(
        wiring.runner(settings, settings.machine, source),
        wiring.nights(settings, source),
        data=settings.state,
    )
    try:
        with wiring.open_database(settings) as database:
            findings += examine_stored(wiring.workplace(settings, database, say=say))
    except (DatabaseUnreachableError, StackError, OSError) as error:
        findings.append(unreachable(error))
    if as_json:
        show_json([vars(finding) for finding in findings])
    else:
        for finding in findings:
            remedy = f" -> {finding.remedy}" if finding.remedy else ""
            write(f"{finding.grade.value}: {finding.what}: {finding.sentence}{remedy}")
    bad = sum(finding.grade is Grade.ERROR for finding in findings)
    if bad:
        raise Refusal(f"{bad} of {len(findings)} checks failed")


COMMANDS = (demo, up, down, doctor)
