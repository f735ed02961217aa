"""What is told when not the program moved, but the machine or what stands beside the program?

One message for each range, where at least half of the timed series moved in it or something is known to differ; no search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from alerts import message
from stepwatch.core.model import Source, SuspectRange
from storage import incidents
from storage.controls import surroundings
from storage.rows import Connection


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
        old, new = (
            surroundings(connection, nights[label], machine=machine)
            for label in (suspect.after, suspect.through)
        )
        differences = [
            f"{name}: {old.get(name, 'unknown')} -> {new.get(name, 'unknown')}"
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        ]
        if 2 * len(names) >= series or differences:
            incidents.write(
                connection,
                kind=f"environment {machine} {source.kind.value} {source.name} {suspect.through}",
                message=message.environment(suspect, names, differences, machine=machine, series=series),
            )
