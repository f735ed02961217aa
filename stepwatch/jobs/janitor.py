"""What has been left on this machine that nobody waits for any more, or needs?

Containers whose owner was killed; images of nights that neither an open incident, an open re-measurement nor the control needs,
and that are not among the newest.
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
        needed = needed_digests(
            connection,
            machine=place.machine.name,
            source=place.source,
            control=place.control,
            newest=place.keep_images,
        )
    removed = place.runner.tidy(needed)
    for each in removed:
        place.say(f"removed: {each}")
    return removed
