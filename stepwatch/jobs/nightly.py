"""How does one night go from a label to what is said about it?

The same steps as the tasks of the DAG `nightly`, one after the other.
"""

from __future__ import annotations

from stepwatch.core.model import Origin
from stepwatch.jobs.bench import bench
from stepwatch.jobs.confirm import confirm
from stepwatch.jobs.deliver import deliver
from stepwatch.jobs.detect import detect
from stepwatch.jobs.record import record
from stepwatch.jobs.resolve import resolve
from stepwatch.jobs.workplace import Workplace


def nightly(
    place: Workplace,
    label: str,
    *,
    origin: Origin = Origin.NIGHTLY,
    fresh: bool = False,
) -> int:
    """Run one night to its end; returns how many messages were sent.

    Raises:
        NoNightError: nothing was published on that date.
        UnreachableError: a service that is needed does not answer.
    """
    night = resolve(place, label)
    run_key = bench(place, night.label, origin=origin, fresh=fresh)
    if run_key is not None:
        record(place, run_key)
    detect(place)
    confirm(place)
    return deliver(place.database, place.transports, place.say).sent
