"""How does one night go from a label to what is said about it?

The same steps as the tasks of the DAG `nightly`, one after the other.
"""

from __future__ import annotations

from stepwatch.core.model import Origin
from stepwatch.jobs.bench import bench
from stepwatch.jobs.catch_up import catch_up
from stepwatch.jobs.confirm import confirm
from stepwatch.jobs.deliver import deliver
from stepwatch.jobs.detect import detect
from stepwatch.jobs.record import record
from stepwatch.jobs.resolve import resolve
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import UnreachableError
from stepwatch.runners.registry import RegistryError


def measure_night(
    place: Workplace, label: str, *, origin: Origin = Origin.NIGHTLY, fresh: bool = False
) -> str | None:
    """Measure a night, then what was a gap some days ago and is there by now; returns the night's run key, as `bench` does.

    What is measured stays, whatever comes of the older nights: they are looked at again tomorrow.

    Raises:
        LookupError, InterruptedRunError, UnreachableError: as for `bench`.
    """
    run_key = bench(place, label, origin=origin, fresh=fresh)
    try:
        catch_up(place)
    except (RegistryError, UnreachableError) as error:
        place.say(f"the nights before {label} were not looked at again: {error}")
    return run_key


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
    run_key = measure_night(place, night.label, origin=origin, fresh=fresh)
    if run_key is not None:
        record(place, run_key)
    detect(place)
    confirm(place)
    return deliver(place.database, place.transports, place.say).sent
