"""What has a pinned old environment measured, again and again? It tells the machine from the program."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

import sqlalchemy as sa

from stepwatch.core import model
from storage import tables as t
from storage.rows import Connection, ensure_pair, machine_id
from storage.steps import READ_ORIGINS, source_id

FLAGS = ("XLA_FLAGS", "JAX_ENABLE_X64")
_VERSION = re.compile(r"_VERSION$")  # of a nightly image: CUDA_VERSION, CUDNN_VERSION, NCCL_VERSION
ORIGINS = (*READ_ORIGINS, model.Origin.CONTROL.value)


def last_measured(connection: Connection, pair: model.CommitPair, *, machine: str) -> dt.datetime | None:
    """When a pair was last measured on a machine, as a night or as the control."""
    query = (
        sa.select(sa.func.max(t.run.c.finished_at))
        .join(t.environment, t.environment.c.id == t.run.c.environment_id)
        .where(
            t.environment.c.pair_id == ensure_pair(connection, pair),
            t.run.c.machine_id == machine_id(connection, machine),
            t.run.c.origin.in_(ORIGINS),
            t.run.c.outcome == model.Outcome.OK.value,
        )
    )
    found: dt.datetime | None = connection.execute(query).scalar_one()
    return found


def suspected_since(
    connection: Connection, when: dt.datetime, *, machine: str, source: model.Source
) -> list[int]:
    """The series (ids) of which a step has been suspected since then, and nobody has been told."""
    query = (
        sa.select(t.series.c.id)
        .distinct()
        .join(t.regression, t.regression.c.series_id == t.series.c.id)
        .where(
            t.series.c.machine_id == machine_id(connection, machine),
            t.series.c.source_id == source_id(connection, source),
            ~t.series.c.exact,
            t.regression.c.gone_at.is_(None),
            t.regression.c.raised_night_id.is_(None),
            t.regression.c.state == model.State.SUSPECTED.value,
            t.regression.c.first_seen_at > when,
        )
    )
    return sorted(connection.execute(query).scalars())


def control_values(connection: Connection, series_id: int) -> Sequence[tuple[str, float]]:
    """(night, value) of each time that the pinned environment was measured for a series, in the order of time.

    A night that it stood for itself is among them; none at all where it was never measured as a control.
    """
    of_control = (
        sa.select(t.run.c.environment_id)
        .join(t.measurement, t.measurement.c.run_id == t.run.c.id)
        .where(t.measurement.c.series_id == series_id, t.run.c.origin == model.Origin.CONTROL.value)
    )
    query = (
        sa.select(t.night.c.label, t.measurement.c.value)
        .select_from(
            t.measurement.join(t.run, t.run.c.id == t.measurement.c.run_id).join(
                t.night, t.night.c.id == t.run.c.night_id
            )
        )
        .where(
            t.measurement.c.series_id == series_id,
            t.measurement.c.value.is_not(None),
            t.run.c.origin.in_(ORIGINS),
            t.run.c.environment_id.in_(of_control),
        )
        .order_by(t.night.c.at, t.run.c.finished_at)
    )
    return [(row.label, row.value) for row in connection.execute(query)]


def surroundings(connection: Connection, night_id: int, *, machine: str) -> dict[str, str]:
    """What a night's last run on a machine was made on and with, beside jax and jaxlib, as words by name."""
    query = (
        sa.select(
            t.machine_state.c.fingerprint,
            t.environment.c.base,
            t.environment.c.freeze,
            t.environment.c.flags,
            t.night.c.digests,
        )
        .select_from(
            t.run.join(t.night, t.night.c.id == t.run.c.night_id)
            .outerjoin(t.machine_state, t.machine_state.c.id == t.run.c.machine_state_id)
            .outerjoin(t.environment, t.environment.c.id == t.run.c.environment_id)
        )
        .where(
            t.run.c.night_id == night_id,
            t.run.c.machine_id == machine_id(connection, machine),
            t.run.c.origin.in_(READ_ORIGINS),
            t.run.c.outcome == model.Outcome.OK.value,
        )
        .order_by(t.run.c.attempt.desc())
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return {}
    found = {name: str(value) for name, value in (row.fingerprint or {}).items()}
    beside = dict(each.split("==", 1) for each in row.freeze or () if "==" in each)
    found |= {
        name: beside[name] for name in beside if name in {"numpy", "scipy"} or name.startswith("nvidia-")
    }
    variables = {**row.digests.get("variables", {}), **(row.flags or {})}
    found |= {name: value for name, value in variables.items() if _VERSION.search(name) or name in FLAGS}
    return found | ({"interpreter": row.base} if row.base else {})
