"""What can every runner do?

A runner opens the environment of a pair and runs a suite in it, one process a call, and can be told from elsewhere
to stop. What goes wrong in the environment is a `Failure`, a value; an unreachable service is an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from stepwatch.core.model import CommitPair, Environment, Image, Night, Outcome, Suite


class UnreachableError(Exception):
    """A service that a runner needs (a package index, a registry) did not answer; worth another try later."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """An environment that is ready: its interpreter, its folder and what is in it; `notes` are what to doubt of it.

    Where it was built, `stamp` has the SHA-256 of each of its parts by name: two with the same stamp are one program.
    """

    python: Path
    folder: Path
    environment: Environment
    notes: tuple[str, ...] = ()
    stamp: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Something that happened instead of a result: one sentence, and the log it is taken from."""

    outcome: Outcome
    reason: str
    log: str = ""


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process to be run: which suite, which of its benchmarks, where its document goes.

    `first` of a run's processes measures also what takes long and is not judged.
    """

    suite: Suite
    seed: int
    out: Path
    only: str | None = None
    first: bool = True


class Measurer(Protocol):
    """Runs suites in environments that are open."""

    def bench(self, opened: Opened, process: Process) -> Mapping[str, Any] | Failure:
        """The document of one process (see `stepwatch.core.documents`); one that is there already is read again."""
        ...


class Runner(Measurer, Protocol):
    """Opens environments and runs suites in them."""

    def beside(self, pair: CommitPair) -> tuple[str, ...]:
        """What stands beside a pair in its environment, as it was asked for: where it moves, a step may be its own."""
        ...

    def open(self, pair: CommitPair, *, like: CommitPair | None = None) -> Opened | Failure:
        """The environment of a pair, made where it is not there yet; with what stands beside the pair `like`.

        Raises:
            UnreachableError: what it would be made from can't be reached now.
        """
        ...

    def within(self, image: Image | None) -> Self:
        """The runner that builds pairs in this image; itself, where it builds in none."""
        ...

    def has(self, pair: CommitPair) -> bool:
        """Whether a pair's environment, or what takes longest of it, is at hand."""
        ...

    def open_night(self, night: Night) -> Opened | Failure:
        """The environment of a night: of its pair, or its image, whose pair is then known.

        Raises:
            UnreachableError: what it would be made from can't be reached now.
        """
        ...

    def tidy(self, needed: Sequence[str]) -> list[str]:
        """Remove what was left by those who were killed, and images but for the `needed` (digests); what was removed.

        Raises:
            UnreachableError: what would be asked does not answer.
        """
        ...

    def cancel(self) -> None:
        """End what is running, with all its children; may be called from another thread or a signal handler."""
        ...
