"""What becomes of what somebody says of a regression, or of all those of an incident?

It is stored with who said it and when, and told in the incident's thread, in one transaction.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from alerts import message
from stepwatch.core.standing import Said, stand
from stepwatch.jobs.open_bisection import RefusedError
from storage import incidents
from storage.rows import Database
from storage.standing import regressions_in, save_standing, standing_of


def say(
    database: Database, said: Said, *, regressions: Sequence[int] = (), incident: int | None = None
) -> list[int]:
    """Store what is said of regressions, by their numbers or as those of an incident; returns their numbers.

    Raises:
        RefusedError: there is no such regression, or what is said does not go with how it stands; nothing is stored.
    """
    now = dt.datetime.now(dt.UTC)
    with database.begin() as connection:
        numbers = sorted(set(regressions)) if incident is None else regressions_in(connection, incident)
        if not numbers:
            raise RefusedError(f"there is no incident {incident}; `stepwatch regressions list` names them")
        remarks: dict[int, int] = {}
        for number in numbers:
            found = standing_of(connection, number)
            if found is None:
                raise RefusedError(
                    f"there is no regression {number}; `stepwatch regressions list` names them"
                )
            before, of_incident = found
            try:
                after = stand(before, said, now=now)
            except ValueError as error:
                raise RefusedError(f"regression {number}: {error}; nothing is stored") from None
            remark = save_standing(connection, number, after, said)
            if of_incident is not None:
                remarks[of_incident] = remark
        for of_incident, remark in remarks.items():
            rows = incidents.regressions_of(connection, of_incident)
            lines = [message.named(row) for row in rows if row["regression_id"] in numbers]
            incidents.write(
                connection,
                kind=f"{said.action.value} {remark}",
                message={"title": said.text, "lines": lines},
                incident_id=of_incident,
            )
    return numbers
