"""Which benchmarks of a night give no result any more, or again, and what is told of it?

Those that began to fail in the same nights on one machine are one incident and one message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from alerts import message
from stepwatch.core.failures import failing
from stepwatch.core.model import Point, SuspectRange
from stepwatch.core.rules import Rulebook
from storage import incidents
from storage.failures import close_incident, failures, save_failures
from storage.rows import Connection


def follow_failures(
    connection: Connection,
    series: Mapping[int, Sequence[Point]],
    nights: Mapping[str, int],
    *,
    tonight: str,
    rules: Rulebook,
    incident: Callable[[SuspectRange], int],
) -> int:
    """Store what is new in the `series` (id -> its points) and write what is to be said; returns how many began or ended."""
    began: list[int] = []
    ended: list[int] = []
    for series_id, points in series.items():
        told, over = save_failures(
            connection, series_id, failing(points), nights, tonight=tonight, incident=incident
        )
        began += told
        ended += over
    for number, rows in _by_incident(failures(connection, began)).items():
        head = message.failing(rows, owners=rules.owners(message.named(row) for row in rows))
        incidents.write(connection, kind=f"failing {tonight}", message=head, incident_id=number)
    for number, rows in _by_incident(failures(connection, ended)).items():
        if close_incident(connection, number):
            incidents.write(
                connection, kind="recovered", message=message.works_again(tonight, rows), incident_id=number
            )
    return len(began) + len(ended)


def _by_incident(rows: Sequence[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    grouped: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        grouped[row["incident_id"]].append(row)
    return grouped
