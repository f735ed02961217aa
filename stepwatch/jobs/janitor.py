"""What has been left on this machine that nobody waits for any more, or needs?

Containers of this machine whose owner was killed; images of nights that nothing needs: neither an open incident or re-measurement
of any machine, nor a control, nor a run that is going on, and that are not among the newest of their source.
"""

from __future__ import annotations

from stepwatch.jobs.workplace import Workplace
from storage.images import needed_digests


def tidy(place: Workplace) -> list[str]:
    """Remove it; returns what was removed.

    Raises:
        UnreachableError: what would be asked does not answer.
    """
    with place.database.begin() as connection:
        controls = [*place.pinned, *([place.control] if place.control else [])]
        needed = needed_digests(connection, controls=controls, newest=place.keep_images)
    removed = place.runner.tidy(needed)
    for each in removed:
        place.say(f"removed: {each}")
    return removed
