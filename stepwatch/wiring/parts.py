"""Which runner, source and suite stand behind the names in the settings?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

from stepwatch import settings as configuration
from stepwatch.core.model import JAX, REPOSITORIES, XLA, Night, Source, SourceKind, Suite, digest
from stepwatch.core.requests import parse_fix
from stepwatch.core.requirements import Earlier
from stepwatch.jobs.workplace import Nights
from stepwatch.runners.checkouts import CheckoutRunner
from stepwatch.runners.commits import CommitNights
from stepwatch.runners.containers import DockerRunner
from stepwatch.runners.either import Either
from stepwatch.runners.image_builds import ImageBuildRunner
from stepwatch.runners.images import Absent, parse_reference
from stepwatch.runners.local import LocalRunner
from stepwatch.runners.nightlies import EarlierImage, RegistryNights
from stepwatch.runners.protocol import Failure, Measurer, Opened, Runner
from stepwatch.runners.registry import Registry
from stepwatch.runners.releases import ReleaseNights
from stepwatch.runners.repositories import Mirror
from stepwatch.sections import (
    EVERY_GROUP,
    CommitsSettings,
    RegistrySettings,
    ReleasesSettings,
    RepositorySettings,
)
from stepwatch.settings import Settings

PROCESSES = {"smoke": 3, "full": 5}
Say = Callable[[str], None]


def machines() -> list[str]:
    """The machines that are configured; each has a pool of its own name."""
    return sorted(configuration.load().machines)


def slot(machine: str) -> dict[str, str]:
    """The pool, and the queue where one is set, of Airflow in which a machine's tasks run."""
    own = configuration.load().machines[machine]
    return {"pool": own.pool or machine, **({"queue": own.queue} if own.queue else {})}


def runner(settings: Settings, machine: str, source: str, *, say: Say = print) -> Runner:
    """What runs a suite on a machine, in environments for a source's nights.

    Raises:
        ConfigError: the machine's file of autotuning results is not there, or it can't run the nights of such a source.
    """
    own, nights = settings.machines[machine], settings.sources[source]
    if isinstance(nights, CommitsSettings) and XLA not in fixed(nights):
        raise configuration.ConfigError(
            f"sources.{source} holds no XLA still, and XLA is built in containers alone; "
            "accepted is fix = 'xla=jaxlib==0.4.20' (--fix)"
        )
    if (own.runner == "docker") != isinstance(nights, RegistrySettings):
        wanted = "docker" if isinstance(nights, RegistrySettings) else "local"
        raise configuration.ConfigError(
            f"machines.{machine}.runner = {own.runner!r} can't run the nights of the source {source} (kind {nights.kind}); "
            f"accepted is {wanted!r}, or another source for this machine (machines.{machine}.source)"
        )
    if isinstance(nights, RegistrySettings):
        _check_autotuning(own.autotuning, machine)
        return ImageBuildRunner(
            docker=containers(settings, machine, nights, say=say),
            mirrors={each: mirror(settings, each) for each in REPOSITORIES},
            folder=settings.cache / "built",
            command=nights.build,
            limit_s=nights.build_limit_s,
            network=nights.build_network,
            say=say,
        )
    if isinstance(nights, CommitsSettings):
        still = ReleasesSettings(
            requirements=nights.requirements, earlier_requirements=(), python=nights.python
        )
        return CheckoutRunner(
            local=local_runner(settings, machine, still),
            mirror=mirror(settings, JAX),
            builds=settings.cache / "builds",
            say=say,
        )
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
        registry=nights.image.partition("/")[0],
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
    if not isinstance(chosen, ReleasesSettings):
        raise configuration.ConfigError(
            f"source = {settings.source!r} is of kind {chosen.kind}; accepted here is a source of kind 'releases' (STEPWATCH_SOURCE)"
        )
    return chosen


def fixed(nights: CommitsSettings) -> dict[str, str]:
    """The repository that a source of commits holds still, with its release."""
    found = parse_fix(nights.fix) if nights.fix else None
    return {} if found is None or isinstance(found, str) else dict([found])


def mirror(settings: Settings, repository: str) -> Mirror:
    """The mirror of a repository on this host; one of another URL is another."""
    named: RepositorySettings = getattr(settings.repositories, repository)
    url = named.url
    return Mirror(
        repository=repository,
        url=url,
        folder=settings.cache / "repositories" / f"{repository}-{digest(url)[:8]}.git",
    )


def nights(settings: Settings, source: str, *, say: Say = print) -> Nights:
    """The nights of a source."""
    chosen = settings.sources[source]
    if isinstance(chosen, ReleasesSettings):
        return ReleaseNights(name=source, ladder=chosen.ladder)
    still = fixed(chosen) if isinstance(chosen, CommitsSettings) else {}
    moving = {each: mirror(settings, each) for each in REPOSITORIES if each not in still}
    commits = CommitNights(name=source, mirrors=moving, fixed=still, say=say)
    if isinstance(chosen, CommitsSettings):
        return commits
    return RegistryNights(
        name=source,
        commits=commits,
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


def source_of(settings: Settings, machine: str) -> str:
    """The source whose nights a machine measures where none is named."""
    return settings.machines[machine].source or settings.source


def chosen_suite(settings: Settings, name: str | None = None) -> Suite:
    """The suite of this name, else the configured default.

    Raises:
        ConfigError: it is not configured, or its folder is not there.
    """
    suite_name = chosen("suite", name or settings.suite, settings.suites)
    own = settings.suites[suite_name]
    if not own.folder.is_dir():
        raise configuration.ConfigError(
            f"suites.{suite_name}.folder = {str(own.folder)!r} is not accepted; accepted is a folder that is there"
        )
    return Suite(
        name=suite_name,
        kind=own.kind,
        folder=str(own.folder.resolve()),
        size=own.size,
        group=None if own.group == EVERY_GROUP else own.group,
        only=own.only,
        processes=own.processes or PROCESSES[own.size],
        time_limit_s=own.time_limit_s,
    )


def chosen(kind: str, name: str, choices: object) -> str:
    """A name that is configured.

    Raises:
        ConfigError: it is not.
    """
    if not isinstance(choices, dict) or name not in choices:
        accepted = ", ".join(sorted(choices)) if isinstance(choices, dict) else "none"
        raise configuration.ConfigError(f"no {kind} {name!r} is configured; accepted is one of {accepted}")
    return name
