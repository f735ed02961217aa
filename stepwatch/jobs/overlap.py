"""Where a series goes on under another identity, does the last environment before it measure the same now?

A changed version of a benchmark, of the protocol, or of its unit starts a new series: its first night can't be compared with the
nights before, and is never a regression. So that a step does not hide there, the last environment of the old series is
measured beside the first of the new one, both as things are measured now: the overlap. What it says is stored as evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwatch.core.model import Source
from stepwatch.core.units import format_change
from storage.rechecks import ask_recheck, measured_nights
from storage.rows import Connection
from storage.segments import new_segments


def ask_overlaps(connection: Connection, nights: Mapping[str, int], *, machine: str, source: Source) -> int:
    """Ask for the overlap of each timed series that has just begun, where both nights can be run; returns how many there are.

    `nights` maps labels to ids.
    """
    runnable = {night for night, _ in measured_nights(connection, machine=machine, source=source)}
    asked = 0
    for each in new_segments(connection, machine=machine, source=source):
        after_id, through_id = nights[each["after"]], nights[each["through"]]
        if {after_id, through_id} <= runnable:
            ask_recheck(
                connection,
                machine=machine,
                source=source,
                series_id=each["series_id"],
                after_id=after_id,
                through_id=through_id,
            )
            asked += 1
    return asked


def segment_text(row: Mapping[str, Any]) -> str:
    """Why a series began, and what its overlap said: a row of `storage.segments.segments`."""
    begun = f"begins at {row['through']}: {row['reason']}"
    if row["verdict"] is None:
        return f"{begun}; {row['after']} was not measured beside it"
    moved = f", {format_change(old=1.0, new=row['ratio'])}" if row["ratio"] is not None else ""
    return (
        f"{begun}; {row['after']} measured again beside it: {row['verdict']}{moved} ({row['overlap_reason']})"
    )
