"""What do the jobs of one machine and one source work with?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from alerts.transport import Transport
from stepwatch.core.bisection.candidates import Candidate
from stepwatch.core.model import CommitInfo, CommitPair, Machine, Night, Pairing, Source, Suite
from stepwatch.core.rules import Rulebook
from stepwatch.runners.protocol import Runner
from storage.rows import Database


class Nights(Protocol):
    """Where nights come from; see `stepwatch.runners.releases.ReleaseNights`."""

    @property
    def source(self) -> Source:
        """The source as it is stored."""
        ...

    def labels(self) -> Sequence[str]:
        """The nights that are run when nothing else is asked for, in order."""
        ...

    def label_on(self, date: dt.date) -> str | None:
        """The night of a UTC day, where there is one."""
        ...

    def check(self, date: dt.date) -> str:
        """That it can be asked, in words; asked for the night of a day."""
        ...

    def night(self, label: str) -> Night | None:
        """The night with this label: its pair, or the reason why there is none; None for a label that nobody knows."""
        ...

    def pair(self, jax: str, xla: str) -> CommitPair | str:
        """The pair of two revisions, or the sentence that says why there is none."""
        ...

    def heads(self, date: dt.date) -> CommitPair | str:
        """The heads of both repositories at the end of a UTC day, or the sentence that says why there are none."""
        ...

    def path(self, good: CommitPair, bad: CommitPair, pairing: Pairing) -> Sequence[Candidate] | str:
        """The pairs from the good one to the bad one, a revision at a time; or the sentence that says why there are none."""
        ...

    def info(self, repository: str, ref: str) -> CommitInfo | None:
        """What a repository says of a commit; None where there are no commits."""
        ...


@dataclass(frozen=True, kw_only=True)
class Workplace:
    """One machine, one source of nights, one suite, and the means to run, store and say.

    `pinned` are the controls of all sources: machines and sources share an engine.
    """

    database: Database
    machine: Machine
    nights: Nights
    suite: Suite
    runner: Runner
    runs: Path
    rules: Rulebook
    policy: str
    comb: int
    control: str | None
    control_days: float
    look_back_days: int
    keep_images: int
    pinned: Sequence[str]
    transports: Sequence[Transport]
    say: Callable[[str], None]

    @property
    def source(self) -> Source:
        """The source whose nights are run here."""
        return self.nights.source
