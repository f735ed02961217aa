"""What do the two published images tell before anything is built, and what is a step that no built pair shows?

A nightly image is more than its two commits: a base image, flags, packages. So the images of both ends are measured first, as
they were published, alternately. Where they are the same, there is nothing to search here: `not_reproduced`. Where they differ,
both end pairs are built in one image. If those are the same, the step is not in the commits: `environment`, told with what
differs between the two images.

    published images   built in one image   the answer
    the same           (not built)          not_reproduced
    different          different            the search goes on
    different          the same             environment
    can't be measured  the same             not_reproduced, and why the images can't speak
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepwatch.core.bisection.compare import Comparison, compare
from stepwatch.core.bisection.effort import effort_for
from stepwatch.core.bisection.plan import SURE, Brackets, GiveUp, Next
from stepwatch.core.model import Better, CulpritKind, Verdict

TRY_NEXT = "try another machine, the other end's container, or a wider range"


@dataclass(frozen=True, kw_only=True)
class Published:
    """What both published images gave, one value a process, alternately; `reason` where they can't be measured.

    `differences` are what is known to differ between them beside JAX and XLA.
    """

    old: tuple[float, ...] = ()
    new: tuple[float, ...] = ()
    reason: str | None = None
    differences: tuple[str, ...] = ()


def compared(published: Published, better: Better) -> Comparison:
    """What the two published images are to each other; `more` processes of each are wanted to tell."""
    effort = effort_for(published.old, published.new, better)
    return compare(
        published.old,
        published.new,
        min_effect=effort.min_effect,
        cap=effort.cap,
        better=better,
        same_from=SURE,
    )


def nothing_to_build(published: Published, better: Better) -> GiveUp | None:
    """The answer where the published images show no step; None where they do, or can't be measured, or must be measured on."""
    said = compared(published, better)
    if published.reason is not None or said.more or said.verdict is Verdict.DIFFERENT:
        return None
    told = "are the same" if said.verdict is Verdict.SAME else "can't be told apart"
    reason = f"the published images {told} here: {said.reason}; {TRY_NEXT}"
    return GiveUp(kind=CulpritKind.NOT_REPRODUCED, reason=reason)


def with_images(
    published: Published, better: Better, found: Next | Brackets | GiveUp, container: str
) -> Next | Brackets | GiveUp:
    """What a search of pairs that are built in one image, `container`, has found, in the light of the published images."""
    if not isinstance(found, GiveUp) or found.kind is not CulpritKind.NOT_REPRODUCED:
        return found
    built = f"built in one image ({container}), {found.reason}"
    if published.reason is not None:
        reason = f"{built}; the published images can't be measured ({published.reason}); {TRY_NEXT}"
        return GiveUp(kind=CulpritKind.NOT_REPRODUCED, reason=reason)
    said = compared(published, better)
    reason = f"the published images differ ({said.reason}), and {built}; {_told(published.differences)}"
    return GiveUp(kind=CulpritKind.ENVIRONMENT, reason=reason)


def _told(differences: Sequence[str]) -> str:
    if not differences:
        return "nothing else is known to differ between the images: look at their layers"
    return f"between the images differ {'; '.join(differences)}"
