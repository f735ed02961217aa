"""A world in which every pair of releases measures what a table says: the runner, the nights, the transport."""

from __future__ import annotations

import datetime as dt
import json
import re
import secrets
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import URL

from alerts.message import Message
from alerts.transport import DeliveryError
from stepwatch.core import model as m
from stepwatch.core.bisection.candidates import Candidate, candidates
from stepwatch.core.rules import Rulebook
from stepwatch.jobs.nightly import nightly
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure, Opened, Process
from storage import tables
from storage.engine import connect, migrate
from storage.reading import read
from storage.rows import Database

START = dt.datetime(2024, 6, 1, tzinfo=dt.UTC)
SOURCE = m.Source(kind=m.SourceKind.RELEASES, name="releases")
MACHINE = m.Machine(name="local")

# seven real releases and what two benchmarks take in them, in ms (benchmark -> a value a release)
LADDER = ("0.4.30", "0.4.31", "0.4.33", "0.5.0", "0.5.3", "0.10.1", "0.10.2")
WHILE = "control_flow.WhileLoop.track_time"
RANK8 = "reductions.RankEight.track_time"
LEVELS = {
    WHILE: (0.41, 0.41, 178.0, 81.0, 0.6, 0.5, 0.5),
    RANK8: (1.0, 1.0, 1.0, 1.0, 1.0, 0.4, 5.0),
}

Value = float | tuple[str, str]  # ms, or a status that is not ok and its reason
Values = dict[str, Value]
Table = dict[tuple[str, str], Values | Failure]


class KilledError(Exception):
    """Stands for the end of the process."""


def ladder_table() -> Table:
    return {(label, label): {name: LEVELS[name][i] for name in LEVELS} for i, label in enumerate(LADDER)}


def released(label: str, labels: Sequence[str] = LADDER) -> dt.datetime:
    """A label's time: a day apart; one that is in no list comes after all."""
    return START + dt.timedelta(days=labels.index(label) if label in labels else len(labels))


def pair_of(jax: str, xla: str, labels: Sequence[str] = LADDER) -> m.CommitPair:
    return m.CommitPair(
        jax=m.Revision(repository=m.JAX, ref=jax, committed_at=released(jax, labels)),
        xla=m.Revision(repository=m.XLA, ref=xla, committed_at=released(xla, labels)),
    )


@dataclass
class ScriptedNights:
    """Nights with these labels, a day apart; those in `missing` were never released."""

    all_labels: Sequence[str] = LADDER
    missing: frozenset[str] = frozenset()
    about: dict[tuple[str, str], m.CommitInfo] = field(default_factory=dict)

    @property
    def source(self) -> m.Source:
        return SOURCE

    def labels(self) -> Sequence[str]:
        return self.all_labels

    def label_on(self, date: dt.date) -> str | None:
        return next((each for each in self.all_labels if self.at(each).date() == date), None)

    def check(self, date: dt.date) -> str:
        return f"asked for {date}"

    def night(self, label: str) -> m.Night:
        if label in self.missing or label not in self.all_labels:
            return m.Night(
                source=SOURCE, label=label, at=self.at(label), gap_reason=f"jax {label} was never released"
            )
        pair = pair_of(label, label, self.all_labels)
        return m.Night(source=SOURCE, label=label, at=pair.at, pair=pair)

    def heads(self, date: dt.date) -> str:
        return f"no commits of {date}"

    def pair(self, jax: str, xla: str) -> m.CommitPair | str:
        for name, version in (("jax", jax), ("jaxlib", xla)):
            if version not in self.all_labels:
                return f"{name} {version} was never released"
        return pair_of(jax, xla, self.all_labels)

    def path(self, good: m.CommitPair, bad: m.CommitPair, pairing: m.Pairing) -> Sequence[Candidate]:
        assert pairing is m.Pairing.CLOCK
        between = [
            m.Revision(repository=repository, ref=label, committed_at=self.at(label))
            for repository in m.REPOSITORIES
            for label in self.all_labels
            if label not in self.missing and good.at < self.at(label) <= bad.at
        ]
        return candidates(good, bad, between)

    def info(self, repository: str, ref: str) -> m.CommitInfo | None:
        return self.about.get((repository, ref))

    def at(self, label: str) -> dt.datetime:
        return released(label, self.all_labels)


@dataclass
class ScriptedRunner:
    """Writes the documents that a table tells of; a pair that is not in the table can't be installed.

    `odd` says what is measured in one run alone, by how the name of its folder begins. `old_numpy` are the
    releases that stand beside numpy 1, `refused` those (with a numpy) that can't be installed. `measured` lists (pair,
    document) of every process that was really run; `dies_after` processes it is killed.
    """

    table: Table
    odd: dict[str, Values | Failure] = field(default_factory=dict)
    measured: list[tuple[str, str]] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    old_numpy: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    dies_after: int | None = None
    at_hand: tuple[str, ...] = ()
    version: str = "1"
    base: str = "cpython 3.11"

    def beside(self, pair: m.CommitPair) -> tuple[str, ...]:
        return ("numpy==1",) if pair.jax.ref in self.old_numpy else ("numpy==2",)

    def open(self, pair: m.CommitPair, *, like: m.CommitPair | None = None) -> Opened | Failure:
        beside = self.beside(like or pair)
        self.opened.append(f"{pair} {beside[0]}" if like else str(pair))
        if (pair.jax.ref, beside[0]) in self.refused:
            reason = f"jax=={pair.jax.ref} can't have {beside[0]}"
            return Failure(outcome=m.Outcome.BUILD_FAILED, reason=reason)
        if (pair.jax.ref, pair.xla.ref) not in self.table:
            reason = f"jax=={pair.jax.ref} depends on jaxlib=={pair.jax.ref}"
            return Failure(outcome=m.Outcome.BUILD_FAILED, reason=reason, log=f"Because {reason}")
        environment = m.Environment(pair=pair, base=self.base, freeze=beside)
        return Opened(python=Path(sys.executable), folder=Path("env"), environment=environment)

    def within(self, image: m.Image | None) -> Self:
        assert image is None
        return self

    def has(self, pair: m.CommitPair) -> bool:
        return str(pair) in self.at_hand

    def open_night(self, night: m.Night) -> Opened | Failure:
        assert night.pair is not None
        return self.open(night.pair)

    def bench(self, opened: Opened, process: Process) -> Mapping[str, Any] | Failure:
        if process.out.is_file():
            found: dict[str, Any] = json.loads(process.out.read_text(encoding="utf-8"))
            return found
        if self.dies_after is not None and len(self.measured) >= self.dies_after:
            raise KilledError
        pair = opened.environment.pair
        self.measured.append((str(pair), f"{process.out.parent.name}/{process.out.name}"))
        values = self.values(opened)
        for run, only_there in self.odd.items():
            values = only_there if process.out.parent.name.startswith(run) else values
        if isinstance(values, Failure):
            return values
        written = document(values, only=process.only or "", seed=process.seed, version=self.version)
        process.out.parent.mkdir(parents=True, exist_ok=True)
        beside = process.out.with_name(f"{process.out.name}.{threading.get_ident()}")
        beside.write_text(json.dumps(written), encoding="utf-8")
        beside.replace(process.out)  # whole or not at all: others read it at the same time
        return written

    def values(self, opened: Opened) -> Values | Failure:
        pair = opened.environment.pair
        return self.table[pair.jax.ref, pair.xla.ref]

    def tidy(self, needed: Sequence[str]) -> list[str]:
        del needed
        return []

    def cancel(self) -> None:
        raise AssertionError("nobody cancels here")


def document(values: Values, *, only: str = "", seed: int = 0, version: str = "1") -> dict[str, Any]:
    """What a process of benchmarks/worker.py writes; the seed makes a wobble of half a percent."""
    return {
        "document": 1,
        "protocol": "1",
        "suite": "benchmarks",
        "size": "smoke",
        "seed": seed,
        "loaded": {},
        "device": {"platform": "cpu", "kind": "cpu", "count": 1},
        "settings": {},
        "warnings": [],
        "benchmarks": [
            result(name, value, wobble=1 + (seed % 1009 - 504) / 100_000, version=version)
            for name, value in sorted(values.items())
            if re.search(only, f"{name}(edge=5)")
        ],
    }


def result(name: str, value: Value, *, wobble: float = 1.0, **more: Any) -> dict[str, Any]:
    blocks = [] if isinstance(value, tuple) else [value * wobble * 1e-3 * factor for factor in (1, 1.01, 1.1)]
    status, reason = value if isinstance(value, tuple) else ("ok", None)
    clocks = (("cpu_time", True, blocks), ("wall_time", False, [2 * block for block in blocks]))
    return {
        "name": name,
        "version": "1",
        "params": {"edge": 5},
        "status": status,
        "reason": reason,
        "compile_s": 0.1,
        "metrics": [
            {"metric": metric, "unit": "s", "better": "lower", "judged": judged, "blocks": values}
            for metric, judged, values in clocks
            if values
        ],
        "hashes": {"stablehlo": "abc"},
        **more,
    }


@dataclass
class Recorder:
    """A transport that keeps what it is given; `refuses` how many next messages."""

    name: str = "recorder"
    said: list[tuple[str | None, Message]] = field(default_factory=list)
    refuses: int = 0

    def deliver(self, message: Message, *, thread: str | None) -> str | None:
        if self.refuses:
            self.refuses -= 1
            raise DeliveryError("nobody answers")
        self.said.append((thread, message))
        return None if thread else f"thread {len(self.said)}"

    @property
    def titles(self) -> list[str]:
        return [message["title"] for _, message in self.said]


@contextmanager
def one_schema(server: URL) -> Iterator[Database]:
    """A database with the newest schema, for all tests of a module (`emptied` between them)."""
    name = f"stepwatch_world_{secrets.token_hex(8)}"
    with sa.create_engine(server, isolation_level="AUTOCOMMIT").connect() as outside:
        outside.execute(sa.text(f"create database {name} template template0"))
        engine = connect(server.set(database=name).render_as_string(hide_password=False))
        migrate(engine)
        yield engine
        engine.dispose()
        outside.execute(sa.text(f"drop database {name} with (force)"))


def emptied(database: Database) -> Database:
    """The database without a row in any table, its numbers starting at 1 again."""
    sequences = "select setval(oid, 1, false) from pg_class where relkind = 'S' and relname like '%_id_seq'"
    with database.begin() as connection:
        for table in reversed(tables.metadata.sorted_tables):
            connection.execute(sa.delete(table))
        connection.execute(sa.text(sequences))
    return database


def workplace(
    database: Database, folder: Path, runner: ScriptedRunner, nights: ScriptedNights | None = None
) -> Workplace:
    return Workplace(
        database=database,
        machine=MACHINE,
        nights=nights or ScriptedNights(),
        suite=m.Suite(name="core", kind="stepwatch", folder=str(folder)),
        runner=runner,
        runs=folder / "runs",
        rules=Rulebook(),
        policy="explore",
        comb=4,
        control=None,
        control_days=0,
        look_back_days=0,
        keep_images=0,
        pinned=(),
        transports=[Recorder()],
        say=lambda _: None,
    )


def play_ladder(place: Workplace, labels: Sequence[str] = LADDER) -> None:
    for label in labels:
        nightly(place, label)


def recorder(place: Workplace) -> Recorder:
    (only,) = place.transports
    assert isinstance(only, Recorder)
    return only


def contents(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, in a fixed order; steps without their ids, for they are found anew each time."""
    with database.connect() as connection:
        found = {
            table.name: connection.execute(sa.select(table)).all() for table in tables.metadata.sorted_tables
        }
    return {
        name: sorted((tuple(row)[name == "step" :] for row in rows), key=repr) for name, rows in found.items()
    }


def ask(database: Database, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a query as tuples."""
    with database.connect() as connection:
        return [tuple(row.values()) for row in read(connection, query, **parameters)]
