"""Which concrete things stand behind the jobs' words?

The settings are read here, once a process, and only here are concrete classes named.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from alerts.console import ConsoleTransport
from alerts.slack import SlackTransport
from alerts.transport import Transport
from stepwatch import settings as configuration
from stepwatch.core import requests
from stepwatch.core.course import TriageSettings
from stepwatch.core.detection import DetectionSettings
from stepwatch.core.model import Action, Machine, Night, Source, SourceKind, Suite
from stepwatch.core.requirements import Earlier
from stepwatch.core.rules import Rule, Rulebook
from stepwatch.core.standing import Said
from stepwatch.jobs import open_bisection, standing
from stepwatch.jobs.history import difference_text, differences
from stepwatch.jobs.workplace import Nights, Workplace
from stepwatch.runners.containers import DockerRunner
from stepwatch.runners.either import Either
from stepwatch.runners.images import Absent, parse_reference
from stepwatch.runners.local import LocalRunner
from stepwatch.runners.nightlies import EarlierImage, RegistryNights
from stepwatch.runners.peers import Peers
from stepwatch.runners.protocol import Failure, Measurer, Opened, Runner
from stepwatch.runners.registry import Registry
from stepwatch.runners.releases import ReleaseNights
from stepwatch.settings import CLONE, EVERY_GROUP, RegistrySettings, ReleasesSettings, Settings
from stepwatch.stack import Stack, running_database
from storage.bisections import load_bisection
from storage.engine import connect, migrate
from storage.rows import Database
from storage.waiting import by_priority, machine_minutes, waiting_incidents

ACTIONS = [each.value for each in Action]
PROCESSES = {"smoke": 3, "full": 5}
Say = Callable[[str], None]
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


def machines() -> list[str]:
    """The machines that are configured; each has a pool of its own name."""
    return sorted(configuration.load().machines)


def slot(machine: str) -> dict[str, str]:
    """The pool, and the queue where one is set, of Airflow in which a machine's tasks run."""
    own = configuration.load().machines[machine]
    return {"pool": own.pool or machine, **({"queue": own.queue} if own.queue else {})}


def scheduled() -> bool:
    """Whether the DAGs run by the clock."""
    return configuration.load().scheduled


def source_of(settings: Settings, machine: str) -> str:
    """The source whose nights a machine measures where none is named."""
    return settings.machines[machine].source or settings.source


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
    machine_name = _chosen("machine", machine or settings.machine, settings.machines)
    own = settings.machines[machine_name]
    source_name = _chosen("source", source or source_of(settings, machine_name), settings.sources)
    nightly = settings.sources[source_name]
    return Workplace(
        database=database,
        machine=Machine(name=machine_name, accelerator=own.accelerator),
        nights=nights(settings, source_name),
        suite=chosen_suite(settings, suite),
        runner=runner(settings, machine_name, source_name, say=say),
        runs=settings.state / "runs",
        rules=rulebook(settings, source_name),
        policy=settings.bisection.policy,
        comb=settings.bisection.comb,
        control=nightly.control,
        control_days=own.control_days,
        look_back_days=nightly.look_back_days if isinstance(nightly, RegistrySettings) else 0,
        keep_images=own.keep_images,
        transports=transports(settings, print),
        say=say,
    )


def runner(settings: Settings, machine: str, source: str, *, say: Say = print) -> Runner:
    """What runs a suite on a machine, in environments for a source's nights.

    Raises:
        ConfigError: the machine's file of autotuning results is not there, or it can't run the nights of such a source.
    """
    own, nights = settings.machines[machine], settings.sources[source]
    if (own.runner == "docker") != isinstance(nights, RegistrySettings):
        wanted = "docker" if isinstance(nights, RegistrySettings) else "local"
        raise configuration.ConfigError(
            f"machines.{machine}.runner = {own.runner!r} can't run the nights of the source {source} (kind {nights.kind}); "
            f"accepted is {wanted!r}, or another source for this machine (machines.{machine}.source)"
        )
    if isinstance(nights, RegistrySettings):
        _check_autotuning(own.autotuning, machine)
        return containers(settings, machine, nights, say=say)
    return local_runner(settings, machine, nights)


def containers(settings: Settings, machine: str, nights: RegistrySettings, *, say: Say) -> DockerRunner:
    """What runs a suite in containers on a machine, whatever its own nights are; with the credentials of `nights`."""
    own = settings.machines[machine]
    return DockerRunner(
        machine=machine,
        lock=settings.cache / "machines" / f"{machine}.lock",
        folder=settings.cache / "images",
        engine=own.engine,
        core=own.core,
        devices=own.devices,
        shm_size=own.shm_size,
        memory=own.memory,
        autotuning=own.autotuning,
        username=nights.username or None,
        password=nights.password or None,
        say=say,
    )


def open_container(settings: Settings, machine: str, reference: str, *, say: Say) -> Opened | Failure | str:
    """The environment of an image, or the sentence that says why there is none.

    The credentials are those of the source whose images lie in the same registry.

    Raises:
        RegistryError, UnreachableError: the registry, or the Docker engine, refuses or does not answer.
    """
    named = parse_reference(reference)
    if isinstance(named, str):
        return named
    sources = [each for each in settings.sources.values() if isinstance(each, RegistrySettings)]
    own = next((each for each in sources if each.image.partition("/")[0] == named.host), RegistrySettings())
    found = registry(own).look(reference, own.platform)
    if isinstance(found, Absent):
        return found.reason
    source = Source(kind=SourceKind.REGISTRY, name="by name")
    night = Night(source=source, label=reference, at=found.created or dt.datetime.now(dt.UTC), image=found)
    return containers(settings, machine, own, say=say).open_night(night)


def measurer(settings: Settings, machine: str, *, say: Say) -> Measurer:
    """What measures an environment of either kind on a machine."""
    releases_of = (each for each in settings.sources.values() if isinstance(each, ReleasesSettings))
    return Either(
        local=local_runner(settings, machine, next(releases_of, ReleasesSettings())),
        containers=containers(settings, machine, RegistrySettings(), say=say),
    )


def local_runner(settings: Settings, machine: str, nights: ReleasesSettings) -> LocalRunner:
    """What runs a suite in environments of released wheels.

    Raises:
        ConfigError: the machine's file of autotuning results is not there.
    """
    autotuning = settings.machines[machine].autotuning
    _check_autotuning(autotuning, machine)
    return LocalRunner(
        environments=settings.cache / "environments",
        lock=settings.cache / "machines" / f"{machine}.lock",
        python=nights.python,
        requirements=nights.requirements,
        earlier=[
            Earlier(through=each.through, requirements=each.requirements)
            for each in nights.earlier_requirements
        ],
        optional=nights.optional,
        core=settings.machines[machine].core,
        autotuning=autotuning,
    )


def _check_autotuning(autotuning: Path | None, machine: str) -> None:
    if autotuning is not None and not autotuning.is_file():
        raise configuration.ConfigError(
            f"machines.{machine}.autotuning = {str(autotuning)!r} is not accepted; accepted is a file that is there"
        )


def releases(settings: Settings) -> ReleasesSettings:
    """The default source, which must be one of releases.

    Raises:
        ConfigError: it is another kind.
    """
    chosen = settings.sources[settings.source]
    if isinstance(chosen, RegistrySettings):
        raise configuration.ConfigError(
            f"source = {settings.source!r} is of kind registry; accepted here is a source of kind 'releases' (STEPWATCH_SOURCE)"
        )
    return chosen


def nights(settings: Settings, source: str) -> Nights:
    """The nights of a source."""
    chosen = settings.sources[source]
    if isinstance(chosen, ReleasesSettings):
        return ReleaseNights(name=source, ladder=chosen.ladder)
    return RegistryNights(
        name=source,
        registry=registry(chosen),
        image=chosen.image,
        earlier_images=[
            EarlierImage(through=each.through, image=each.image) for each in chosen.earlier_images
        ],
        container=chosen.container,
        flavor=chosen.flavor,
        platform=chosen.platform,
    )


def registry(nights: RegistrySettings) -> Registry:
    """The registries that a source's images lie in; its credentials go to that of the newest images alone."""
    return Registry(
        username=nights.username or None,
        password=nights.password or None,
        host=nights.image.partition("/")[0],
    )


def chosen_suite(settings: Settings, name: str | None = None) -> Suite:
    """The suite of this name, else the configured default.

    Raises:
        ConfigError: it is not configured, or its folder is not there.
    """
    suite_name = _chosen("suite", name or settings.suite, settings.suites)
    chosen = settings.suites[suite_name]
    if not chosen.folder.is_dir():
        raise configuration.ConfigError(
            f"suites.{suite_name}.folder = {str(chosen.folder)!r} is not accepted; accepted is a folder that is there"
        )
    return Suite(
        name=suite_name,
        kind=chosen.kind,
        folder=str(chosen.folder.resolve()),
        size=chosen.size,
        group=None if chosen.group == EVERY_GROUP else chosen.group,
        only=chosen.only,
        processes=chosen.processes or PROCESSES[chosen.size],
        time_limit_s=chosen.time_limit_s,
    )


def start_bisection(settings: Settings, database: Database, conf: Mapping[str, Any], *, say: Say) -> Identity:
    """Open the bisection that a request asks for, at the machine and source that it belongs to.

    Raises:
        RefusedError: the request is not understood or can't be carried out.
    """
    request = open_bisection.locate(database, conf)
    place = workplace(settings, database, say=say, machine=request.machine, source=request.source)
    number = open_bisection.open_bisection(place, request)
    return {"bisection": number, "machine": place.machine.name, "source": place.source.name}


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


def _chosen(kind: str, name: str, choices: object) -> str:
    if not isinstance(choices, dict) or name not in choices:
        accepted = ", ".join(sorted(choices)) if isinstance(choices, dict) else "none"
        raise configuration.ConfigError(f"no {kind} {name!r} is configured; accepted is one of {accepted}")
    return name
