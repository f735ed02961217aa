"""Which searches are there, and what has each tried?"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import distinct_on

from stepwatch.core import model
from stepwatch.core.bisection.candidates import Candidate
from storage import tables as t
from storage.rows import Connection, clean, ensure_pair, load_pairs, upsert


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a range is searched: `repositories` are URLs that the request named itself, `fix` what is held still.

    `container` is the digest of the image in which pairs are built, where they are built in one.
    """

    policy: str
    pairing: model.Pairing = model.Pairing.CLOCK
    fix: str | None = None
    container: str | None = None
    repositories: dict[str, str] = field(default_factory=dict)
    budget_probes: int | None = None
    budget_minutes: float | None = None


@dataclass(frozen=True, kw_only=True)
class BisectionRow:
    """A search: the range it is about and its path, the candidates in order from the good pair to the bad one."""

    id: int
    incident_id: int | None
    series_id: int
    state: str
    machine: str
    source: model.Source
    good: str
    bad: str
    setup: Setup
    candidates: tuple[Candidate, ...]

    @property
    def path(self) -> tuple[model.CommitPair, ...]:
        """The candidates' pairs."""
        return tuple(each.pair for each in self.candidates)


@dataclass(frozen=True, kw_only=True)
class ProbeRow:
    """What a pair measured: ratios to the reference, one a process; or why it could not be measured; and what it was built to."""

    pair: model.CommitPair
    ratios: tuple[float, ...]
    outcome: model.Outcome
    reason: str | None
    seconds: float
    program: str | None = None


@dataclass(frozen=True, kw_only=True)
class IncidentPlace:
    """Where an incident was seen, between which nights, and the series that moved most."""

    incident_id: int
    machine: str
    source: model.Source
    after: str
    through: str
    series_id: int


def incident_place(connection: Connection, incident_id: int) -> IncidentPlace | None:
    """The place of an incident; None where there is no such alerted incident."""
    after, through = t.night.alias("a"), t.night.alias("b")
    levels = (sa.func.nullif(level, 0) for level in (t.regression.c.level, t.regression.c.baseline))
    size = sa.func.abs(sa.func.ln(operator.truediv(*levels)))
    query = (
        sa.select(
            t.machine.c.name.label("machine"),
            t.source.c.kind,
            t.source.c.name.label("source"),
            after.c.label.label("after"),
            through.c.label.label("through"),
            t.regression.c.series_id,
        )
        .select_from(
            t.incident.join(t.machine)
            .join(t.source)
            .join(after, after.c.id == t.incident.c.after_night_id)
            .join(through, through.c.id == t.incident.c.through_night_id)
            .join(t.regression, t.regression.c.incident_id == t.incident.c.id)
        )
        .where(t.incident.c.id == incident_id, t.regression.c.gone_at.is_(None))
        .order_by(size.desc(), t.regression.c.id)
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    return IncidentPlace(
        incident_id=incident_id,
        machine=row.machine,
        source=model.Source(kind=model.SourceKind(row.kind), name=row.source),
        after=row.after,
        through=row.through,
        series_id=row.series_id,
    )


def series_named(connection: Connection, name: str) -> list[int]:
    """The ids of the measured (not counted) judged series of a benchmark, by its name alone or with its parameters.

    Of several protocols or versions it is the newest: the older ones can't be measured now.
    """
    names = ("benchmark", "params", "metric", "machine_id", "source_id")
    program = [t.series.c[name] for name in names]
    query = (
        sa.select(t.series.c.id, t.series.c.benchmark, t.series.c.params)
        .where(t.series.c.judged, ~t.series.c.exact)
        .order_by(*program, t.series.c.id.desc())
        .ext(distinct_on(*program))
    )
    found = connection.execute(query).all()
    return sorted(row.id for row in found if name in {row.benchmark, model.title(row.benchmark, row.params)})


def open_bisection(
    connection: Connection,
    *,
    incident_id: int | None,
    series_id: int,
    path: Sequence[Candidate],
    good: str,
    bad: str,
    setup: Setup,
) -> int:
    """A new bisection's id; a second request for an incident attaches to the one that is open."""
    attempt = 1
    if incident_id is not None:
        mine = t.bisection.c.incident_id == incident_id
        found = connection.execute(
            sa.select(t.bisection.c.id).where(mine, t.bisection.c.state == t.OPEN_BISECTION)
        ).scalar()
        if found is not None:
            return int(found)
        last = sa.select(sa.func.coalesce(sa.func.max(t.bisection.c.attempt), 0)).where(mine)
        attempt = int(connection.execute(last).scalar_one()) + 1
    pairs = [ensure_pair(connection, each.pair) for each in path]
    values = {
        "incident_id": incident_id,
        "attempt": attempt,
        "series_id": series_id,
        "good_pair_id": pairs[0],
        "bad_pair_id": pairs[-1],
        "good": good,
        "bad": bad,
        "policy": setup.policy,
        "pairing": setup.pairing.value,
        "fix": setup.fix,
        "container": setup.container,
        "repositories": setup.repositories,
        "budget_probes": setup.budget_probes,
        "budget_minutes": setup.budget_minutes,
    }
    made = connection.execute(sa.insert(t.bisection).values(values).returning(t.bisection.c.id))
    bisection_id = int(made.scalar_one())
    connection.execute(
        sa.insert(t.candidate),
        [
            {
                "bisection_id": bisection_id,
                "position": position,
                "pair_id": pair,
                "hour": each.hour,
                "at_hand": each.at_hand,
            }
            for position, (pair, each) in enumerate(zip(pairs, path, strict=True))
        ],
    )
    return bisection_id


def load_bisection(connection: Connection, bisection_id: int) -> BisectionRow | None:
    """The bisection with this id."""
    query = (
        sa.select(
            t.bisection,
            t.machine.c.name.label("machine"),
            t.source.c.kind,
            t.source.c.name.label("source"),
        )
        .select_from(t.bisection.join(t.series).join(t.machine).join(t.source))
        .where(t.bisection.c.id == bisection_id)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    path = connection.execute(
        sa.select(t.candidate.c.pair_id, t.candidate.c.hour, t.candidate.c.at_hand)
        .where(t.candidate.c.bisection_id == bisection_id, t.candidate.c.position.is_not(None))
        .order_by(t.candidate.c.position)
    ).all()
    pairs = load_pairs(connection, [each.pair_id for each in path])
    return BisectionRow(
        id=row.id,
        incident_id=row.incident_id,
        series_id=row.series_id,
        state=row.state,
        machine=row.machine,
        source=model.Source(kind=model.SourceKind(row.kind), name=row.source),
        good=row.good,
        bad=row.bad,
        setup=Setup(
            policy=row.policy,
            pairing=model.Pairing(row.pairing),
            fix=row.fix,
            container=row.container,
            repositories=row.repositories,
            budget_probes=row.budget_probes,
            budget_minutes=row.budget_minutes,
        ),
        candidates=tuple(
            Candidate(pair=pairs[each.pair_id], hour=each.hour, at_hand=each.at_hand) for each in path
        ),
    )


def open_probe(connection: Connection, bisection_id: int, pair: model.CommitPair) -> int:
    """The id of the probe of a pair; a pair that is not on the path becomes a candidate without a position."""
    keys = {"bisection_id": bisection_id, "pair_id": ensure_pair(connection, pair)}
    candidate_id = upsert(connection, t.candidate, keys)
    return upsert(connection, t.probe, {"candidate_id": candidate_id})


def save_probe(
    connection: Connection,
    probe_id: int,
    *,
    outcome: model.Outcome,
    reason: str | None = None,
    log: str | None = None,
    seconds: float,
    ratios: Sequence[float] = (),
    value: float | None = None,
    program: str | None = None,
) -> None:
    """Store what a probe measured, or why it could not, and the `seconds` of the machine that this took, beside earlier ones."""
    connection.execute(
        sa.update(t.probe)
        .where(t.probe.c.id == probe_id)
        .values(
            outcome=outcome.value,
            reason=reason,
            log=clean(log),
            ratios=list(ratios),
            value=value,
            program=program,
            seconds=t.probe.c.seconds + seconds,
            finished_at=sa.func.now(),
        )
    )


def probes(connection: Connection, bisection_id: int) -> list[ProbeRow]:
    """What has been tried so far, in the order of the path; crossed pairs last."""
    query = (
        sa.select(t.probe, t.candidate.c.pair_id)
        .join(t.candidate)
        .where(t.candidate.c.bisection_id == bisection_id, t.probe.c.outcome.is_not(None))
        .order_by(t.candidate.c.position.nulls_last(), t.probe.c.id)
    )
    rows = connection.execute(query).all()
    pairs = load_pairs(connection, [row.pair_id for row in rows])
    return [
        ProbeRow(
            pair=pairs[row.pair_id],
            ratios=tuple(row.ratios),
            outcome=model.Outcome(row.outcome),
            reason=row.reason,
            seconds=row.seconds,
            program=row.program,
        )
        for row in rows
    ]


def finish_bisection(
    connection: Connection,
    bisection_id: int,
    *,
    state: str,
    reason: str | None = None,
    culprits: Sequence[model.Culprit] = (),
) -> bool:
    """End an open bisection with what it found; says whether this call did it."""
    change = (
        sa.update(t.bisection)
        .where(t.bisection.c.id == bisection_id, t.bisection.c.state == t.OPEN_BISECTION)
        .values(state=state, reason=reason, finished_at=sa.func.now())
    )
    if connection.execute(change).rowcount != 1:
        return False
    rows: list[dict[str, Any]] = [
        {
            "bisection_id": bisection_id,
            "position": position,
            "kind": culprit.kind.value,
            "repository": culprit.repository,
            "commit": culprit.commit,
            "after": culprit.after,
            "through": culprit.through,
            "partners": list(culprit.partners),
            "change": culprit.change,
            "low": culprit.low,
            "high": culprit.high,
            "baseline": culprit.baseline,
            "reason": culprit.reason,
            "author": culprit.info and culprit.info.author,
            "committed_at": culprit.info and culprit.info.committed_at,
            "subject": culprit.info and culprit.info.subject,
            "url": culprit.info and culprit.info.url,
            "old": list(culprit.old),
            "new": list(culprit.new),
        }
        for position, culprit in enumerate(culprits)
    ]
    if rows:
        connection.execute(sa.insert(t.culprit), rows)
    return True
