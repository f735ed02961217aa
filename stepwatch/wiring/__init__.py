"""Which concrete things stand behind the jobs' words?

The settings are read here, once a process, and only here are concrete classes named.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

from alerts.console import ConsoleTransport
from alerts.slack import SlackTransport
from alerts.transport import Transport
from stepwatch import settings as configuration
from stepwatch.core import requests
from stepwatch.core.course import TriageSettings
from stepwatch.core.detection import DetectionSettings
from stepwatch.core.model import REPOSITORIES, Action, Machine
from stepwatch.core.rules import Rule, Rulebook
from stepwatch.core.standing import Said
from stepwatch.jobs import open_bisection, standing
from stepwatch.jobs.history import difference_text, differences
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.peers import Peers
from stepwatch.sections import CLONE, CommitsSettings, RegistrySettings, ReleasesSettings, RepositorySettings
from stepwatch.settings import Settings
from stepwatch.stack import Stack, running_database
from stepwatch.wiring.parts import (
    Say,
    chosen,
    chosen_suite,
    local_runner,
    machines,
    measurer,
    nights,
    open_container,
    releases,
    runner,
    slot,
    source_of,
)
from storage.bisections import load_bisection
from storage.engine import connect, migrate
from storage.rows import Database
from storage.waiting import by_priority, machine_minutes, waiting_incidents

__all__ = [
    "ACTIONS",
    "bisection_place",
    "bisection_service",
    "chosen_suite",
    "database",
    "find_bisection",
    "local_runner",
    "local_stack",
    "machines",
    "measurer",
    "nights",
    "open_container",
    "open_database",
    "peers",
    "releases",
    "requested",
    "rulebook",
    "runner",
    "say_of_regressions",
    "scheduled",
    "service",
    "shadow_rulebook",
    "slot",
    "source_of",
    "start_bisection",
    "start_waiting",
    "transports",
    "try_shadow",
    "workplace",
]

COMMITS = "commits"  # the source of a request that names repositories or what is held still, and no source
ACTIONS = [each.value for each in Action]
Identity = dict[
    str, Any
]  # a bisection's number with its machine and source, as one task hands it to the next


@contextlib.contextmanager
def open_database(settings: Settings) -> Iterator[Database]:
    """The configured database, else the embedded server's, with the newest schema."""
    with contextlib.ExitStack() as stack:
        url = settings.database_url or stack.enter_context(running_database(settings.state))
        database = connect(url)
        stack.callback(database.dispose)
        migrate(database)
        yield database


@contextlib.contextmanager
def database() -> Iterator[tuple[Settings, Database]]:
    """The settings in force and their database, opened for the time of one task."""
    settings = configuration.load()
    with open_database(settings) as opened:
        yield settings, opened


@contextlib.contextmanager
def service(
    *,
    machine: str | None = None,
    source: str | None = None,
    suite: str | None = None,
    say: Say = print,
) -> Iterator[Workplace]:
    """A workplace by the settings in force, its database opened for the time of one task."""
    with database() as (settings, opened):
        yield workplace(settings, opened, say=say, machine=machine, source=source, suite=suite)


def scheduled() -> bool:
    """Whether the DAGs run by the clock."""
    return configuration.load().scheduled


def workplace(
    settings: Settings,
    database: Database,
    *,
    say: Say,
    machine: str | None = None,
    source: str | None = None,
    suite: str | None = None,
) -> Workplace:
    """The workplace of a machine, a source and a suite; what is not named is the configured default.

    Raises:
        ConfigError: a name that is not configured.
    """
    machine_name = chosen("machine", machine or settings.machine, settings.machines)
    own = settings.machines[machine_name]
    source_name = chosen("source", source or source_of(settings, machine_name), settings.sources)
    nightly = settings.sources[source_name]
    return Workplace(
        database=database,
        machine=Machine(name=machine_name, accelerator=own.accelerator),
        nights=nights(settings, source_name, say=say),
        suite=chosen_suite(settings, suite),
        runner=runner(settings, machine_name, source_name, say=say),
        runs=settings.state / "runs",
        rules=rulebook(settings, source_name),
        policy=settings.bisection.policy,
        comb=settings.bisection.comb,
        control=nightly.control,
        control_days=own.control_days,
        look_back_days=nightly.look_back_days if isinstance(nightly, RegistrySettings) else 0,
        keep_images=max(each.keep_images for each in settings.machines.values()),
        pinned=[each.control for each in settings.sources.values() if each.control],
        transports=transports(settings, print),
        say=say,
    )


def start_bisection(
    settings: Settings,
    database: Database,
    conf: Mapping[str, Any],
    *,
    say: Say,
    repositories: Mapping[str, str] | None = None,
) -> Identity:
    """Open the bisection that a request asks for, at the machine and source that it belongs to.

    `repositories` are URLs that it reads from in place of the configured ones.

    Raises:
        RefusedError: the request is not understood or can't be carried out.
    """
    place, request = requested(settings, database, conf, say=say, repositories=repositories)
    number = open_bisection.open_bisection(place, request, repositories=repositories)
    return {"bisection": number, "machine": place.machine.name, "source": place.source.name}


def requested(
    settings: Settings,
    database: Database,
    conf: Mapping[str, Any],
    *,
    say: Say,
    repositories: Mapping[str, str] | None = None,
) -> tuple[Workplace, requests.BisectionRequest]:
    """The workplace that a request is for, and the request as it is understood.

    Raises:
        RefusedError: the request is not understood or can't be carried out.
    """
    request = open_bisection.locate(database, conf)
    source = request.source or (COMMITS if request.fix or repositories else None)
    own = _with_commits(settings, source, request.fix, repositories or {})
    place = workplace(own, database, say=say, machine=request.machine, source=source)
    return place, request


def bisection_place(
    settings: Settings, database: Database, identity: Mapping[str, Any], *, say: Say
) -> Workplace:
    """The workplace of a bisection, with the repositories that it was opened for."""
    with database.begin() as connection:
        row = load_bisection(connection, identity["bisection"])
    if row is None:
        raise open_bisection.RefusedError(f"there is no bisection {identity['bisection']}")
    own = _with_commits(settings, row.source.name, row.setup.fix, row.setup.repositories)
    return workplace(own, database, say=say, machine=row.machine, source=row.source.name)


@contextlib.contextmanager
def bisection_service(identity: Mapping[str, Any], *, say: Say = print) -> Iterator[Workplace]:
    """The same by the settings in force, its database opened for the time of one task."""
    with database() as (settings, opened):
        yield bisection_place(settings, opened, identity, say=say)


def _with_commits(
    settings: Settings, source: str | None, fix: str | None, repositories: Mapping[str, str]
) -> Settings:
    """The settings with what a request says of its source of commits.

    Raises:
        RefusedError: the source is of another kind, or a repository is not known.
    """
    if source is None or not (fix or repositories or source == COMMITS):
        return settings
    unknown = sorted(set(repositories) - set(REPOSITORIES))
    if unknown:
        raise open_bisection.RefusedError(
            f"there is no repository {unknown[0]!r}; accepted are {', '.join(REPOSITORIES)}"
        )
    nightly = settings.sources.get(source, CommitsSettings() if source == COMMITS else None)
    if nightly is None:
        return settings
    if fix and not isinstance(nightly, CommitsSettings):
        raise open_bisection.RefusedError(
            f"the source {source} is of kind {nightly.kind}; fix goes with one of kind commits"
        )
    if isinstance(nightly, ReleasesSettings):
        raise open_bisection.RefusedError(
            f"the source {source} is of kind releases; repositories go with one of kind commits or registry"
        )
    nightly = nightly.model_copy(update={"fix": fix}) if fix else nightly
    urls = {name: RepositorySettings(url=url) for name, url in repositories.items()}
    return settings.model_copy(
        update={
            "sources": {**settings.sources, source: nightly},
            "repositories": settings.repositories.model_copy(update=urls),
        }
    )


def start_waiting(settings: Settings, database: Database, *, say: Say) -> list[Identity]:
    """Open a bisection of every alerted incident that waits for one, the most urgent first.

    On a machine whose budget of a day is used up the rest waits.
    """
    budget = settings.bisection.daily_minutes
    with database.begin() as connection:
        waiting = by_priority(connection, waiting_incidents(connection))
        used = {machine: machine_minutes(connection, machine) for _, machine in waiting}
    opened = []
    for incident, machine in waiting:
        if budget is not None and used[machine] >= budget:
            say(
                f"incident {incident} waits: the searches on {machine} took {used[machine]:.0f} of {budget:g} minutes"
            )
            continue
        opened.append(
            {"incident": incident, **start_bisection(settings, database, {"incident": incident}, say=say)}
        )
    return opened


def find_bisection(database: Database, number: int) -> Identity:
    """The machine and source of a bisection.

    Raises:
        RefusedError: there is none with this number.
    """
    with database.begin() as connection:
        row = load_bisection(connection, number)
    if row is None:
        raise open_bisection.RefusedError(f"there is no bisection {number}")
    return {"bisection": number, "machine": row.machine, "source": row.source.name}


def rulebook(settings: Settings, source: str | None = None) -> Rulebook:
    """The thresholds as triage takes them for a source (the default one where none is named), and the rules over them."""
    thresholds = settings.thresholds
    return Rulebook(
        triage=TriageSettings(
            detection=DetectionSettings(min_effect=thresholds.min_effect),
            confirm=thresholds.confirm_results,
            suspect_change=thresholds.suspect_change,
            drift_change=thresholds.drift_change,
            baseline=settings.sources[source or settings.source].baseline,
        ),
        noise=thresholds.noise,
        origins={key: f"thresholds.{key}" for key in thresholds.model_fields_set},
        rules=[
            Rule(
                match=each.match,
                says=each.model_dump(exclude={"match"}, exclude_none=True),
                origin=f"rule {number}, match = {each.match!r}",
            )
            for number, each in enumerate(settings.rules, start=1)
        ],
    )


def shadow_rulebook(settings: Settings) -> Rulebook:
    """The thresholds of `[shadow]` where it has one, else the live ones, and the same rules over them."""
    tried = settings.shadow.model_dump(exclude_none=True)
    return rulebook(settings.model_copy(update={"thresholds": settings.thresholds.model_copy(update=tried)}))


def say_of_regressions(conf: Mapping[str, Any]) -> list[int]:
    """Store what a request says of a regression or of an incident; returns the regressions' numbers.

    Raises:
        RefusedError: the request is not understood, or does not go with how it stands.
    """
    what, end = {each: conf.get(each) for each in ("regression", "incident")}, conf.get("until")
    if sum(each is not None for each in what.values()) != 1:
        raise open_bisection.RefusedError("accepted is either regression or incident, by its number")
    day = requests.parse_date(end) if end else None
    if end and day is None:
        raise open_bisection.RefusedError(f"until {end!r} is not accepted; accepted is a day, as 2026-12-01")
    said = Said(
        action=Action(conf["action"]),
        author=conf.get("by") or "Airflow",
        until=dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC) if day else None,
        assignee=conf.get("to"),
        reason=conf.get("reason"),
    )
    numbers = [each for each in (conf.get("regression"),) if each is not None]
    with database() as (_, opened):
        return standing.say(opened, said, regressions=numbers, incident=conf.get("incident"))


def try_shadow(*, say: Say = print) -> int:
    """Say what one of the live thresholds and those of `[shadow]` alone would have said of the newest night."""
    with database() as (settings, opened):
        if not settings.shadow.model_dump(exclude_none=True):
            return 0
        found = list(differences(opened, rulebook(settings), shadow_rulebook(settings), nights=1))
    for each in found:
        say(difference_text(each))
    return len(found)


def peers(settings: Settings) -> Peers:
    """Other detectors, for `stepwatch evaluate`."""
    return Peers(folder=settings.cache / "peers", lock=CLONE / "requirements-peers.lock")


def transports(settings: Settings, write: Say) -> list[Transport]:
    """The transports that are enabled."""
    chosen: list[Transport] = []
    if settings.transports.console.enabled:
        chosen.append(ConsoleTransport(write))
    if settings.transports.slack.enabled:
        slack = settings.transports.slack
        chosen.append(SlackTransport(token=slack.token, channel=slack.channel, base_url=slack.base_url))
    return chosen


def local_stack(settings: Settings) -> Stack:
    """Postgres and Airflow of this machine, with a pool of one slot for each machine."""
    extra = {
        "STEPWATCH_STATE": str(settings.state.resolve()),
        "STEPWATCH_CACHE": str(settings.cache.resolve()),
        "STEPWATCH_SCHEDULED": str(settings.scheduled).lower(),
    }
    if settings.database_url is not None:
        extra["STEPWATCH_DATABASE_URL"] = settings.database_url
    file = configuration.config_file()
    if file is not None:
        extra["STEPWATCH_CONFIG"] = str(file.resolve())
    return Stack(
        state=settings.state,
        dags=CLONE / "dags",
        extra_env=extra,
        pools={own.pool or name: 1 for name, own in settings.machines.items()},
    )
