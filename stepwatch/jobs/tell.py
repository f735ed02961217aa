"""In which messages is it said what has become of the regressions of tonight?

One message for each incident and kind of news, written in the transaction of the decision. The head of an incident says also
what else is known of its range: the nights in it without a result, siblings that moved the other way, what changed
beside JAX and XLA, other machines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alerts import message
from stepwatch.core.model import Direction, SuspectRange
from stepwatch.core.rules import Rulebook
from stepwatch.core.sayings import RAISING, Saying, Telling
from stepwatch.core.standing import QUIET
from stepwatch.jobs.surroundings import differences
from storage import incidents, neighbourhood
from storage.rows import Connection

Facts = dict[int, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Told:
    """One thing to be told, of which regression and in which incident."""

    regression_id: int
    incident_id: int
    saying: Saying


def tell(
    connection: Connection, told: Sequence[Told], nights: Mapping[str, int], *, tonight: str, rules: Rulebook
) -> None:
    """Write one message for each incident and kind of news; `nights` maps labels to ids."""
    grouped: dict[int, list[Told]] = defaultdict(list)
    for each in told:
        grouped[each.incident_id].append(each)
    for incident_id, everything in grouped.items():
        facts = {row["regression_id"]: row for row in incidents.regressions_of(connection, incident_id)}
        # of what is dismissed or snoozed, people want to hear no more
        news = [each for each in everything if facts[each.regression_id]["disposition"] not in QUIET]
        kinds = {each.saying.kind for each in news}
        lines = {
            kind: [_movement(facts, each) for each in news if each.saying.kind is kind] for kind in kinds
        }
        if kinds & RAISING and not _raise(connection, incident_id, facts, rules, nights):
            joined = [line for kind in sorted(kinds & RAISING) for line in lines[kind]]
            said = message.joined(tonight, joined)
            incidents.write(connection, kind=f"joined {tonight}", message=said, incident_id=incident_id)
        for kind, make in (
            (Telling.PARTLY_RECOVERED, message.partly),
            (Telling.RETRACTED, message.retracted),
            (Telling.WAY_BACK, message.way_back),
        ):
            if kind in kinds:
                more = _back(news, kind) if kind is Telling.PARTLY_RECOVERED else []
                said = make(tonight, [*lines[kind], *more])
                incidents.write(
                    connection, kind=f"{kind.value} {tonight}", message=said, incident_id=incident_id
                )
        if incidents.mark_recovered(connection, incident_id) and Telling.RECOVERED in kinds:
            heard = [row for row in facts.values() if row["disposition"] not in QUIET]
            drifts = {
                each.regression_id: _movement(facts, each)
                for each in news
                if each.saying.kind is Telling.RECOVERED
                and each.saying.regression.direction is Direction.DRIFT
            }
            told_back = [drifts.get(row["regression_id"]) or _way_back(row) for row in heard]
            said = message.recovered(tonight, [*told_back, *_back(news, Telling.RECOVERED)])
            incidents.write(connection, kind="recovered", message=said, incident_id=incident_id)


def _raise(
    connection: Connection, incident_id: int, facts: Facts, rules: Rulebook, nights: Mapping[str, int]
) -> bool:
    """The head of an incident; the threads of the same range on other machines get a line that names it.

    Says whether it has none yet: who joins later is told in its thread.
    """
    first = next(iter(facts.values()))
    direction = Direction(first["direction"])
    elsewhere = neighbourhood.on_other_machines(connection, incident_id)
    notes = [] if direction is Direction.DRIFT else _notes(connection, incident_id, first, nights)
    notes += [message.also_on(machine, number) for number, machine in elsewhere]
    head = message.head(
        direction,
        machine=first["machine"],
        after=first["after"],
        through=first["through"],
        regressions=list(facts.values()),
        owners=rules.owners(message.named(row) for row in facts.values()),
        notes=notes,
    )
    if not incidents.write(connection, kind="head", message=head, incident_id=incident_id):
        return False
    for number, _ in elsewhere:
        note = {"title": message.also_on(first["machine"], incident_id), "lines": [head["title"]]}
        incidents.write(connection, kind=f"also {incident_id}", message=note, incident_id=number)
    return True


def _notes(
    connection: Connection, incident_id: int, first: dict[str, Any], nights: Mapping[str, int]
) -> list[str]:
    suspect = SuspectRange(after=first["after"], through=first["through"])
    silent = neighbourhood.nights_inside(
        connection, first["series_id"], after=suspect.after, through=suspect.through
    )
    differing = differences(connection, suspect, nights, machine=first["machine"])
    return [
        *message.commits(neighbourhood.revisions_between(connection, incident_id)),
        *message.silent_nights(silent),
        *message.cost_shift(neighbourhood.moved_the_other_way(connection, incident_id)),
        *(f"what differs beside JAX and XLA: {each}" for each in differing),
    ]


def _way_back(row: dict[str, Any]) -> str:
    present = row["level"] if row["present"] is None else row["present"]
    if row["direction"] == Direction.DRIFT:  # back by no step
        return message.movement(row, before=row["level"], after=row["baseline"], remaining=0)
    return message.movement(row, before=row["level"], after=present, remaining=present / row["baseline"] - 1)


def _back(news: Sequence[Told], kind: Telling) -> list[str]:
    """Between which nights the steps lie that brought them back; a level that is back by itself has none."""
    steps = {each.saying.suspect: None for each in news if each.saying.kind is kind and each.saying.suspect}
    return [message.back_between(step.after, step.through) for step in steps]


def _movement(facts: Facts, told: Told) -> str:
    saying = told.saying
    return message.movement(
        facts[told.regression_id], before=saying.before, after=saying.after, remaining=saying.remaining
    )
