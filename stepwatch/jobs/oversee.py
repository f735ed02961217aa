"""Is there something odd about the detector itself? If so it is told, once a day for each machine and question."""

from __future__ import annotations

import datetime as dt

from stepwatch.core import oversight
from storage import incidents
from storage.oversight import last_measurements, step_directions, verdicts
from storage.rows import Database


def oversee(database: Database, *, now: dt.datetime | None = None) -> list[str]:
    """Write what is odd into the outbox, and return it."""
    at = now or dt.datetime.now(dt.UTC)
    odd = []
    with database.begin() as connection:
        for machine, last in last_measurements(connection).items():
            answers = {
                "no data": oversight.no_data(last, at),
                "one-sided": oversight.one_sided(step_directions(connection, machine)),
                "unreliable": oversight.unreliable(verdicts(connection, machine)),
            }
            for question, sentence in answers.items():
                if sentence is None:
                    continue
                odd.append(f"{machine}: {sentence}")
                incidents.write(
                    connection,
                    kind=f"{question} {machine} {at:%Y-%m-%d}",
                    message={"title": f"stepwatch itself: {machine}: {sentence}", "lines": []},
                )
    return odd
