"""What is a night, when its source is asked again?

What was seen first is what counts, for it is what has been measured: a tag that stands for another image by now, or for none,
does not change it; that is said. Worked example:

    first seen sha256:aa…     now sha256:bb…    the night stays aa…; "… moved: sha256:aa… when it was first seen, now sha256:bb…"
    first seen sha256:aa…     now not there     measured: it stays, "… is no longer in the registry"; not measured yet: a gap
    a gap                     now sha256:aa…    a night
"""

from __future__ import annotations

from dataclasses import replace

from stepwatch.core.model import Night


def seen_again(known: Night, now: Night, *, measured: bool) -> tuple[Night, str | None]:
    """The night as it is to be stored, and what is to be said of it."""
    if known.image is None or (known.gap_reason is not None and now.image is not None and not measured):
        return now, None
    reference = known.image.reference
    if now.image is None:
        if measured or now.gap_reason is None:
            return known, f"{reference} is no longer in the registry; what was measured of it stays"
        reason = f"pruned: {reference} was in the registry when it was first seen ({_short(known.image.digest)}), and is no longer"
        return replace(known, pair=None, gap_reason=reason), None
    if now.image.index != known.image.index:
        was, is_now = _short(known.image.index), _short(now.image.index)
        return (
            known,
            f"the tag {reference} moved: {was} when it was first seen, now {is_now}; the first is what is measured",
        )
    return replace(known, gap_reason=None), None


def _short(digest: str) -> str:
    return digest[: len("sha256:") + 12]
