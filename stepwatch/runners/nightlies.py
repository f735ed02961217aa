"""Which container image is a night, by its date?

A nightly image has its date in its tag. The date is that of the build, never that of a commit; a date may have no image
(the build failed), one for another platform only, or one that was taken away later: each is a gap with its reason.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from stepwatch.core.bisection.candidates import Candidate
from stepwatch.core.model import CommitInfo, CommitPair, Night, Pairing, Source, SourceKind
from stepwatch.runners.commits import CommitNights
from stepwatch.runners.images import (
    EARLIER_IMAGE,
    EARLIER_THROUGH,
    IMAGE,
    PLATFORM,
    Absent,
    repository_of,
)
from stepwatch.runners.registry import Registry


@dataclass(frozen=True, kw_only=True)
class EarlierImage:
    """How images were named through a date."""

    through: dt.date
    image: str


@dataclass(kw_only=True)
class RegistryNights:
    """Nightly images: a date's night is the image whose name has it, where the registry has one for the platform.

    What lies between two of them, `commits` know.
    """

    name: str
    registry: Registry
    commits: CommitNights
    image: str = IMAGE
    earlier_images: Sequence[EarlierImage] = (EarlierImage(through=EARLIER_THROUGH, image=EARLIER_IMAGE),)
    container: str = "jax"
    flavor: str = "jax"
    platform: str = PLATFORM

    @property
    def source(self) -> Source:
        """The source as it is stored."""
        return Source(kind=SourceKind.REGISTRY, name=self.name)

    def labels(self) -> tuple[str, ...]:
        """The night that is run when nothing else is asked for: today's, in UTC."""
        return (_today().isoformat(),)

    def label_on(self, date: dt.date) -> str:
        """The date itself: whether there is an image, the registry says of each night."""
        return date.isoformat()

    def check(self, date: dt.date) -> str:
        """That the registry answers and has such a repository; with what it has for a day.

        Raises:
            RegistryError: access is refused, or the registry has no such repository.
            UnreachableError: the registry gives no answer that can be used.
        """
        reference = self.reference(date)
        repository = repository_of(reference)
        next(self.registry.tags(repository), None)
        found = self.registry.look(reference, self.platform)
        there = found.reason if isinstance(found, Absent) else f"{reference} is there"
        return f"{repository} answers; {there}"

    def night(self, label: str) -> Night | None:
        """The night of a date: its image, or the reason why there is none; None for no date, and for one to come.

        Raises:
            RegistryError: access is refused, or the registry has no such repository.
            UnreachableError: the registry gives no answer that can be used.
        """
        date = _date(label)
        if date is None or date > _today():
            return None
        at = dt.datetime.combine(date, dt.time(), dt.UTC)
        found = self.registry.look(self.reference(date), self.platform)
        if isinstance(found, Absent):
            return Night(source=self.source, label=label, at=at, gap_reason=found.reason)
        return Night(source=self.source, label=label, at=at, image=found)

    def reference(self, date: dt.date) -> str:
        """The name of a date's image; of the earlier ways to name it, the first that reaches to the date holds."""
        template = next((each.image for each in self.earlier_images if each.through >= date), self.image)
        return template.format(container=self.container, flavor=self.flavor, date=date.isoformat())

    def heads(self, date: dt.date) -> CommitPair | str:
        """The heads of both repositories at the end of a day."""
        return self.commits.heads(date)

    def pair(self, jax: str, xla: str) -> CommitPair | str:
        """The pair of two commits."""
        return self.commits.pair(jax, xla)

    def path(self, good: CommitPair, bad: CommitPair, pairing: Pairing) -> tuple[Candidate, ...] | str:
        """The commits of both repositories between two pairs; when each was made is not always known of an image."""
        first, last = (self.commits.pair(each.jax.ref, each.xla.ref) for each in (good, bad))
        if isinstance(first, str) or isinstance(last, str):
            return first if isinstance(first, str) else str(last)
        return self.commits.path(first, last, pairing)

    def info(self, repository: str, ref: str) -> CommitInfo | None:
        """What a repository says of a commit."""
        return self.commits.info(repository, ref)


def _date(label: str) -> dt.date | None:
    try:
        date = dt.date.fromisoformat(label)
    except ValueError:
        return None
    # 20240916 is a date too, and would be a second night
    return date if date.isoformat() == label else None


def _today() -> dt.date:
    return dt.datetime.now(dt.UTC).date()
