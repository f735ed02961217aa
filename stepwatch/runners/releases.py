"""Which versions of jax and jaxlib were released, and when?

Asked of the package index that pip and uv are configured for (`UV_DEFAULT_INDEX`, `PIP_INDEX_URL`), else of the
public one, by PEP 700's upload times.
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import requests
from pypi_simple import PYPI_SIMPLE_ENDPOINT, NoSuchProjectError, PyPISimple

from stepwatch.core.bisection.candidates import Candidate, candidates
from stepwatch.core.model import (
    JAX,
    XLA,
    CommitInfo,
    CommitPair,
    Night,
    Pairing,
    Revision,
    Source,
    SourceKind,
)
from stepwatch.core.requests import DISTRIBUTIONS
from stepwatch.runners.protocol import UnreachableError
from stepwatch.runners.web import SystemTrust, innermost

_FINAL = re.compile(r"^\d+(\.\d+)*$")


@dataclass(frozen=True, kw_only=True)
class Release:
    """One released version: the upload time of its first file, and whether its makers took it back."""

    revision: Revision
    yanked: bool


@dataclass(kw_only=True)
class ReleaseNights:
    """Released versions stand in for nights: version X is the pair jax X + jaxlib X at its upload time."""

    name: str
    ladder: Sequence[str]

    @property
    def source(self) -> Source:
        """The source as it is stored."""
        return Source(kind=SourceKind.RELEASES, name=self.name)

    def labels(self) -> tuple[str, ...]:
        """The nights that are run when nothing else is asked for, in order."""
        return tuple(self.ladder)

    def label_on(self, date: dt.date) -> str | None:
        """The version that was released on a UTC day: the last one, where there were several.

        Raises:
            UnreachableError: the package index does not answer.
        """
        days = {
            max(
                released(repository)[label].revision.committed_at for repository in DISTRIBUTIONS
            ).date(): label
            for label in released(JAX)
            if label in released(XLA)
        }
        return days.get(date)

    def check(self, date: dt.date) -> str:
        """That the package index answers.

        Raises:
            UnreachableError: it does not.
        """
        self.label_on(date)
        return "it answers"

    def night(self, label: str) -> Night | None:
        """The night of one version: its pair, or the reason why there is none; None where neither ever had it.

        Raises:
            UnreachableError: the package index does not answer.
        """
        known = {repository: released(repository) for repository in DISTRIBUTIONS}
        times = [each[label].revision.committed_at for each in known.values() if label in each]
        if not times:
            return None
        for repository, project in DISTRIBUTIONS.items():
            release = known[repository].get(label)
            if release is None or release.yanked:
                why = "was never released" if release is None else "was taken back by its makers (yanked)"
                return Night(
                    source=self.source, label=label, at=max(times), gap_reason=f"{project} {label} {why}"
                )
        pair = CommitPair(jax=known[JAX][label].revision, xla=known[XLA][label].revision)
        return Night(source=self.source, label=label, at=pair.at, pair=pair)

    def heads(self, date: dt.date) -> str:
        """The sentence that says why there are none."""
        return f"{self.name} has released versions, and no commits of {date}"

    def pair(self, jax: str, xla: str) -> CommitPair | str:
        """The pair of two versions, or the sentence that says which of them was never released.

        Raises:
            UnreachableError: the package index does not answer.
        """
        found = {}
        for repository, version in ((JAX, jax), (XLA, xla)):
            release = released(repository).get(version)
            if release is None:
                return f"{DISTRIBUTIONS[repository]} {version} was never released"
            found[repository] = release.revision
        return CommitPair(jax=found[JAX], xla=found[XLA])

    def path(self, good: CommitPair, bad: CommitPair, pairing: Pairing) -> tuple[Candidate, ...] | str:
        """The releases of both in the order of their times, without those that were taken back.

        Raises:
            UnreachableError: the package index does not answer.
        """
        if pairing is not Pairing.CLOCK:
            return f"{self.name} has releases, which go by the clock; accepted is pairing clock"
        ends = {JAX: (good.jax, bad.jax), XLA: (good.xla, bad.xla)}
        between = [
            release.revision
            for repository, (first, last) in ends.items()
            for release in released(repository).values()
            if first.committed_at < release.revision.committed_at <= last.committed_at and not release.yanked
        ]
        return candidates(good, bad, between)

    def info(self, repository: str, ref: str) -> CommitInfo | None:
        """Nothing: a release is many commits."""
        del repository, ref
        return None


@functools.cache
def released(repository: str) -> Mapping[str, Release]:
    """Version and its final release of jax ("jax") or jaxlib ("xla"), in upload order; asked once a process.

    Raises:
        UnreachableError: the index does not answer.
    """
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL") or PYPI_SIMPLE_ENDPOINT
    project = DISTRIBUTIONS[repository]
    try:
        with PyPISimple(index) as client:
            client.s.mount("https://", SystemTrust())
            page = client.get_project_page(project, timeout=60)
    except NoSuchProjectError:
        raise UnreachableError(f"the package index has no project {project}") from None
    except requests.RequestException as error:
        raise UnreachableError(
            f"the package index does not answer for {project}: {innermost(error)}"
        ) from None
    uploads: dict[str, list[tuple[dt.datetime, bool]]] = {}
    for file in page.packages:
        if file.version and _FINAL.match(file.version) and file.upload_time is not None:
            uploads.setdefault(file.version, []).append((file.upload_time, bool(file.is_yanked)))
    found = {
        version: Release(
            revision=Revision(
                repository=repository,
                ref=version,
                committed_at=min(time for time, _ in files).astimezone(dt.UTC).replace(microsecond=0),
            ),
            yanked=all(yanked for _, yanked in files),
        )
        for version, files in uploads.items()
    }
    return dict(sorted(found.items(), key=lambda item: item[1].revision.committed_at))
