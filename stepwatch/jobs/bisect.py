"""How is a range searched until what did it has a name?

`search_hours`, `search_commits`, `attribute` and `conclude` are tasks of the DAG `bisect`, and the command `stepwatch
bisect` plays them one after the other. Each probe is stored at once, and what is next follows from what is stored:
killed anywhere, the search goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from alerts import message
from stepwatch.core.bisection.blame import Answer, Ask, distinct
from stepwatch.core.bisection.plan import GiveUp, Next, plan_commits, plan_hours
from stepwatch.core.model import Culprit, title
from stepwatch.jobs.open_bisection import RefusedError
from stepwatch.jobs.probe import Work
from stepwatch.jobs.workplace import Workplace
from storage import bisections, incidents
from storage.rows import Database

WORK_S = 240  # how long one call works before it gives the machine's slot back


def search_hours(place: Workplace, bisection_id: int) -> bool:
    """Try the candidates that end an hour until it is known between which of them the level changes; False where there is more to do after `WORK_S`.

    Raises:
        RefusedError: the bisection was cancelled.
        UnreachableError: what an environment is made from can't be reached now.
    """
    return _go_on(place, bisection_id, lambda work: work.try_next(plan_hours))


def search_commits(place: Workplace, bisection_id: int) -> bool:
    """Try what lies in those hours until the brackets are known; as `search_hours`."""
    return _go_on(place, bisection_id, lambda work: work.try_next(plan_commits))


def attribute(place: Workplace, bisection_id: int) -> bool:
    """Measure both sides of each bracket side by side, and the crossed pairs that blame asks for; as `search_hours`."""

    def step(work: Work) -> bool:
        for bracket in work.brackets():
            if work.look_again(bracket):
                return False
            answer = work.answer(bracket)
            if isinstance(answer, Ask):
                work.probe(answer.tries[0].pair, answer.tries[0].repeats)
                return False
        return True

    return _go_on(place, bisection_id, step)


def conclude(place: Workplace, bisection_id: int) -> tuple[Culprit, ...]:
    """Say what a bisection has ended with; once, however often it is called.

    Raises:
        RefusedError: its search is not done.
    """
    work = Work(place, bisection_id)
    found = work.found(plan_commits)
    answers = [(bracket, work.answer(bracket)) for bracket in work.brackets()]
    if isinstance(found, Next) or any(isinstance(answer, Ask) for _, answer in answers):
        raise RefusedError(f"the search of bisection {bisection_id} is not done")
    culprits = [
        work.told(culprit, bracket)
        for bracket, answer in answers
        if isinstance(answer, Answer)
        for culprit in answer.culprits
    ]
    if isinstance(found, GiveUp):
        culprits.append(
            Culprit(kind=found.kind, after=work.row.good, through=work.row.bad, reason=found.reason)
        )
    named = distinct(culprits)
    with place.database.begin() as connection:
        done = bisections.finish_bisection(connection, bisection_id, state="finished", culprits=named)
        if done:
            said = message.explained(
                bisection_id,
                title(work.benchmark.name, work.benchmark.params),
                work.row.good,
                work.row.bad,
                named,
                probes=len(work.observations),
            )
            incidents.write(
                connection,
                kind=f"bisection {bisection_id}",
                message=said,
                incident_id=work.row.incident_id,
                bisection_id=bisection_id,
            )
            if work.row.incident_id is not None:
                incidents.mark_explained(connection, work.row.incident_id)
    return named


def give_up(place: Workplace, bisection_id: int, reason: str) -> None:
    """End a bisection that could not be carried out; its incident may be tried again."""
    with place.database.begin() as connection:
        bisections.finish_bisection(connection, bisection_id, state="failed", reason=reason)


def cancel(database: Database, bisection_id: int) -> bool:
    """End an open bisection; what works at it stops before its next probe. Says whether it was open."""
    with database.begin() as connection:
        return bisections.finish_bisection(connection, bisection_id, state="cancelled", reason="by request")


def _go_on(place: Workplace, bisection_id: int, step: Callable[[Work], bool]) -> bool:
    """Take one step after the other, each from what is stored, until the phase or the time is over."""
    begun = time.monotonic()
    while time.monotonic() - begun < WORK_S:
        work = Work(place, bisection_id)
        if work.row.state == "cancelled":
            raise RefusedError(f"bisection {bisection_id} was cancelled")
        if work.row.state != "open" or step(work):
            return True
    return False
