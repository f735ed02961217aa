"""What is told when not the program moved, but the machine or what stands beside the program?

Where at least half of a machine's timed series (and four of them) move on one night, and the machine or what stands beside JAX
and XLA is known to have changed with it, nobody can tell the one from the other: that range is the environment's. One message
says what differs; there is no search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from alerts import message
from stepwatch.core.model import Direction, Source, State, SuspectRange
from stepwatch.core.triage import Triage
from storage import incidents
from storage.controls import surroundings
from storage.rows import Connection

TOGETHER_MIN = 4  # series that are no coincidence


def moved_together(
    connection: Connection, results: Sequence[Triage], nights: Mapping[str, int], *, machine: str
) -> set[str]:
    """The nights from which on half of the timed series, of which `results` are tonight's, moved with their surroundings."""
    standing = {State.SUSPECTED, State.CONFIRMED}
    moved = Counter(
        now.suspect
        for result in results
        for now in result.regressions
        if now.state in standing and now.direction is not Direction.DRIFT
    )
    together: Counter[str] = Counter()
    for suspect, count in moved.items():
        together[suspect.through] += count
    return {
        suspect.through
        for suspect in moved
        if together[suspect.through] >= max(TOGETHER_MIN, len(results) / 2)
        and differences(connection, suspect, nights, machine=machine)
    }


def differences(
    connection: Connection, suspect: SuspectRange, nights: Mapping[str, int], *, machine: str
) -> list[str]:
    """What is known to differ between the two nights of a range, beside JAX and XLA."""
    old, new = (
        surroundings(connection, nights[label], machine=machine) for label in (suspect.after, suspect.through)
    )
    return [
        f"{name}: {old.get(name, 'unknown')} -> {new.get(name, 'unknown')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def tell_surroundings(
    connection: Connection,
    moved: Mapping[SuspectRange, Sequence[str]],
    nights: Mapping[str, int],
    *,
    machine: str,
    source: Source,
    series: int,
) -> None:
    """Write what is to be said of the ranges in which benchmarks `moved` for no reason of their own; of `series` in all."""
    for suspect, names in moved.items():
        known = differences(connection, suspect, nights, machine=machine)
        if 2 * len(names) >= series or known:
            incidents.write(
                connection,
                kind=f"environment {machine} {source.kind.value} {source.name} {suspect.through}",
                message=message.environment(suspect, names, known, machine=machine, series=series),
            )
