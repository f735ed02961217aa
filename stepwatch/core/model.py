"""Which words does stepwatch use, and what is each made of?

Every value here is a frozen, keyword-only dataclass; every time is an aware UTC datetime. docs/glossary.md explains
the same words to a reader, and a test ties the two together.
"""

from __future__ import annotations

import datetime as dt
import enum
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

JAX = "jax"
XLA = "xla"
REPOSITORIES = (JAX, XLA)


class Better(enum.StrEnum):
    """Which direction of a metric is good."""

    HIGHER = "higher"
    LOWER = "lower"


class SourceKind(enum.StrEnum):
    """Where nights come from."""

    REGISTRY = "registry"
    RELEASES = "releases"
    COMMITS = "commits"
    LOGS = "logs"


class Origin(enum.StrEnum):
    """Why a run was made. Detection reads NIGHTLY and BACKFILL only."""

    NIGHTLY = "nightly"
    BACKFILL = "backfill"
    CONTROL = "control"
    RECHECK = "recheck"
    PROBE = "probe"
    CANARY = "canary"


class Outcome(enum.StrEnum):
    """What happened, to a run or to one measurement in it."""

    OK = "ok"
    SKIPPED = "skipped"
    IMAGE_MISSING = "image_missing"
    BUILD_FAILED = "build_failed"
    BENCHMARK_FAILED = "benchmark_failed"
    WRONG_RESULT = "wrong_result"
    TIMED_OUT = "timed_out"
    STALE_BUILD = "stale_build"
    CANCELLED = "cancelled"


class Verdict(enum.StrEnum):
    """What a probe, or a re-measurement, means next to its neighbour."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"
    BROKEN = "broken"


class Direction(enum.StrEnum):
    """Which way a step goes, once triage knows what is good.

    Two are no step: FAILURE, a benchmark gives no result any more; DRIFT, it became slower a little every night.
    """

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    FAILURE = "failure"
    DRIFT = "drift"


class State(enum.StrEnum):
    """Where a regression stands; the machine keeps it."""

    SUSPECTED = "suspected"
    CONFIRMED = "confirmed"
    EXPLAINED = "explained"
    RECOVERED = "recovered"
    ENVIRONMENT = "environment"


class Disposition(enum.StrEnum):
    """What a person has said about a regression; people keep it."""

    NONE = "none"
    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"
    DISMISSED = "dismissed"


class Action(enum.StrEnum):
    """What a person may do about a regression."""

    ACK = "ack"
    SNOOZE = "snooze"
    ASSIGN = "assign"
    DISMISS = "dismiss"
    REOPEN = "reopen"


class Label(enum.StrEnum):
    """What a person says that a step is."""

    REAL = "real"
    NOISE = "noise"
    ENVIRONMENT = "environment"


class Pairing(enum.StrEnum):
    """Which XLA a JAX commit is tried with: that of the same time, or the one that its own tree asks for."""

    CLOCK = "clock"
    PINNED = "pinned"


class CulpritKind(enum.StrEnum):
    """What a bisection can end with."""

    COMMIT = "commit"
    RANGE = "range"
    INTERACTION = "interaction"
    ENVIRONMENT = "environment"
    NOT_REPRODUCED = "not_reproduced"


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One commit of one repository, or one released version where releases stand in for commits."""

    repository: str
    ref: str
    committed_at: dt.datetime

    def __str__(self) -> str:
        return f"{self.repository}@{self.short}"

    @property
    def short(self) -> str:
        """The reference for people: of a commit the first 12 digits."""
        return self.ref[:12] if re.fullmatch(r"[0-9a-f]{40}", self.ref) else self.ref

    @property
    def is_release(self) -> bool:
        """Whether it is a version (also one under development), and no commit."""
        return re.fullmatch(r"(?![0-9a-f]{40}$)\d+(\.\d+\S*)?", self.ref) is not None


@dataclass(frozen=True, kw_only=True)
class CommitPair:
    """The JAX and the XLA revision under test; printed `jax@0123abc+xla@4567def`."""

    jax: Revision
    xla: Revision

    def __str__(self) -> str:
        return f"{self.jax}+{self.xla}"

    @property
    def at(self) -> dt.datetime:
        """The pair's time: the later of its two commit times."""
        return max(self.jax.committed_at, self.xla.committed_at)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where nights come from; part of a series' identity."""

    kind: SourceKind
    name: str


@dataclass(frozen=True, kw_only=True)
class Image:
    """A container image, as a registry answered when its tag was first seen.

    `reference` is what was asked for (`ghcr.io/nvidia/jax:jax-2024-09-16`); `index` the digest that the tag stood for (of
    an index, or of the manifest itself); `digest` that of the manifest for `platform` (`linux/amd64`), which is what is
    run; `platforms` all that it was built for. `labels`, `variables` and `created` are from its configuration.
    """

    reference: str
    index: str
    digest: str
    platform: str
    platforms: tuple[str, ...]
    labels: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    created: dt.datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Night:
    """One label of a source with its time, and a pair, an image (its pair is known once it is opened) or a gap's reason."""

    source: Source
    label: str
    at: dt.datetime
    pair: CommitPair | None = None
    image: Image | None = None
    gap_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Environment:
    """A pair in an image or a virtual environment, addressed by its hash.

    `freeze` lists every installed distribution as `name==version`; `base` names what it was built on (an
    image digest, an interpreter); `flags` are the environment variables that reach the compiler.
    """

    pair: CommitPair
    base: str
    freeze: tuple[str, ...] = ()
    flags: dict[str, str] = field(default_factory=dict)
    image_digest: str | None = None

    @property
    def hash(self) -> str:
        """40 hex digits over everything above, stable across processes."""
        return digest([str(self.pair), self.base, sorted(self.freeze), self.flags, self.image_digest])


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A name for one kind of hardware on one host; part of a series' identity."""

    name: str
    accelerator: str = "cpu"


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What is measured: its asv name, explicit version, parameters, and which metric in which unit.

    `judged` says that people are told of steps of this metric; the others are kept beside it, to explain. `exact` says
    that it is a count, the same in every process: any change of it is a change of the program, and a step.
    """

    name: str
    version: str
    params: dict[str, Any] = field(default_factory=dict)
    metric: str
    unit: str
    better: Better
    judged: bool = True
    exact: bool = False


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What is run as one thing: a folder with an asv suite, a selection from it, its size and how often."""

    name: str
    kind: str
    folder: str
    size: str = "smoke"
    group: str | None = None
    only: str | None = None
    processes: int = 3
    time_limit_s: float = 600.0


@dataclass(frozen=True, kw_only=True)
class Series:
    """The identity under which points may be compared with each other."""

    benchmark: Benchmark
    machine: str
    protocol: str
    source: Source


@dataclass(frozen=True, kw_only=True)
class Point:
    """One night of a series: a value, or None with what happened there; `spread` is its measurement's."""

    label: str
    at: dt.datetime
    value: float | None
    outcome: Outcome | None = None
    environment: int | None = None
    spread: float | None = None


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One run of one benchmark's metric with every repeat kept.

    `samples` are block values in the metric's unit; `process[i]` says which process made `samples[i]`.
    `value` is a low quantile over processes of their block medians (a high one for rates), `low` and `high` are
    the extremes of those, and `spread` is by how much the middle process is worse than the best one (0.02 is 2 %).
    `warnings` are what a reader should know before trusting it, one sentence each.
    """

    benchmark: Benchmark
    outcome: Outcome
    reason: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    samples: tuple[float, ...] = ()
    process: tuple[int, ...] = ()
    hashes: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A stretch at one level: positions [start, stop) among the values present; `level` in the series' unit."""

    start: int
    stop: int
    level: float


@dataclass(frozen=True, kw_only=True)
class Step:
    """Where one level becomes another: old level up to `index` - 1, new level from `index` on.

    `ratio` = new level / old level; `confidence` in (0, 1]; `remeasured` says that evidence holds it.
    """

    index: int
    ratio: float
    level_before: float
    level_after: float
    confidence: float
    remeasured: bool = False


@dataclass(frozen=True, kw_only=True)
class Dip:
    """A stretch that left the level and was back within 3 results: positions [start, stop)."""

    start: int
    stop: int
    ratio: float


@dataclass(frozen=True, kw_only=True)
class SuspectRange:
    """Half-open (after, through]: `after` is the last label on the old level, `through` the first on the new."""

    after: str
    through: str

    def __str__(self) -> str:
        return f"({self.after}, {self.through}]"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What measuring both sides of a boundary again, alternately, said. Values are one a process.

    `bridge` says that what stands beside the pair moved there, and was held still: SAME means that it did it.
    """

    suspect: SuspectRange
    verdict: Verdict
    ratio: float | None
    old: tuple[float, ...]
    new: tuple[float, ...]
    reason: str
    bridge: bool = False


@dataclass(frozen=True, kw_only=True)
class Regression:
    """A step with a direction and a state; an improvement is one too, its direction says so.

    `baseline` is the old level (median in the unit, dips and odd nights left out), `level` the new one; `change`
    = level / baseline - 1. `raised` is the night on which people were told (None: not yet), `recovered` the night
    on which an alerted one was found back on its old level (or found to be no step), `eased` the night on which
    people were told that it is partly back.
    """

    suspect: SuspectRange
    direction: Direction
    state: State
    baseline: float
    level: float
    remeasured: bool = False
    raised: str | None = None
    eased: str | None = None
    recovered: str | None = None

    @property
    def change(self) -> float:
        """New level / baseline - 1; infinite where a count comes from 0."""
        return self.level / self.baseline - 1 if self.baseline else math.inf


@dataclass(frozen=True, kw_only=True)
class CommitInfo:
    """What a repository says of a commit, to a reader; `url` is where it can be read, where that is known."""

    author: str
    committed_at: dt.datetime
    subject: str
    url: str | None = None

    def __str__(self) -> str:
        said = f"{self.author}, {self.committed_at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC: {self.subject}"
        return f"{said} ({self.url})" if self.url else said


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """One of the things a bisection ends with.

    `old` and `new` are what both sides of its boundary gave, one value a process, measured alternately, as ratios to the
    good end (or in any one unit); `low` and `high` bound `change` by two standard errors.
    """

    kind: CulpritKind
    repository: str | None = None
    commit: str | None = None
    after: str
    through: str
    partners: tuple[str, ...] = ()
    change: float | None = None
    low: float | None = None
    high: float | None = None
    baseline: float | None = None
    reason: str = ""
    info: CommitInfo | None = None
    old: tuple[float, ...] = ()
    new: tuple[float, ...] = ()


def title(benchmark: str, params: Mapping[str, Any]) -> str:
    """A benchmark with its parameters, `linear_algebra.MatMul.track_time(edge=512)`."""
    inside = ", ".join(f"{key}={value}" for key, value in params.items())
    return f"{benchmark}({inside})" if inside else benchmark


def digest(document: Any) -> str:
    """40 hex digits of a JSON-able document, independent of key order."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def pair_id(jax: str, xla: str) -> str:
    """The 40 hex digits by which asv knows a pair (its `commit hash`)."""
    return digest({"jax": jax, "xla": xla})
