"""What do the two published images tell before anything is built, and what is a step that no built pair shows?"""

from __future__ import annotations

from stepwatch.core.bisection.ends import Published, compared, nothing_to_build, with_images
from stepwatch.core.bisection.plan import GiveUp, Next, Observation, Policy, hours_of, plan_commits
from stepwatch.core.model import Better, CulpritKind

LOWER = Better.LOWER
HOURS = hours_of([True] * 3)
CONTAINER = "ghcr.io/nvidia/jax:jax-2024-09-17"
FLAT = (1.00, 1.01, 1.02, 1.00, 1.01, 1.01, 1.00, 1.02, 1.00, 1.01)
SLOWER = tuple(2 * value for value in FLAT)
BUILT_SAME = GiveUp(kind=CulpritKind.NOT_REPRODUCED, reason="the ends are the same")


def test_published_images_are_measured_until_they_are_told_apart_or_found_the_same() -> None:
    assert compared(Published(), LOWER).more == 3
    assert compared(Published(old=FLAT[:3], new=SLOWER[:3]), LOWER).more == 0
    assert compared(Published(old=FLAT[:5], new=FLAT[:5]), LOWER).more == 5, "five alike are no proof"
    assert compared(Published(old=FLAT, new=FLAT), LOWER).more == 0


def test_nothing_is_built_where_the_published_images_are_the_same() -> None:
    answer = nothing_to_build(Published(old=FLAT, new=FLAT), LOWER)
    assert answer is not None
    assert answer.kind is CulpritKind.NOT_REPRODUCED
    assert answer.reason.startswith("the published images are the same here: +0.0 % with 10 processes a side")
    assert answer.reason.endswith("try another machine, the other end's container, or a wider range")


def test_the_search_goes_on_where_the_published_images_differ_or_can_not_be_measured() -> None:
    assert nothing_to_build(Published(old=FLAT, new=SLOWER), LOWER) is None
    assert nothing_to_build(Published(reason="pruned"), LOWER) is None
    assert nothing_to_build(Published(old=FLAT[:5], new=FLAT[:5]), LOWER) is None, "more are asked for"


def test_a_step_that_no_built_pair_shows_is_the_environments_with_what_differs() -> None:
    images = Published(old=FLAT, new=SLOWER, differences=("XLA_FLAGS '' -> '--x'", "numpy 2.0.0 -> 2.1.0"))
    answer = with_images(images, LOWER, BUILT_SAME, CONTAINER)
    assert isinstance(answer, GiveUp)
    assert answer.kind is CulpritKind.ENVIRONMENT
    assert answer.reason == (
        "the published images differ (the closest of 3 processes a side are x 1.96 apart), and built in one image "
        f"({CONTAINER}), the ends are the same; between the images differ XLA_FLAGS '' -> '--x'; numpy 2.0.0 -> 2.1.0"
    )


def test_it_is_said_where_nothing_is_known_to_differ() -> None:
    answer = with_images(Published(old=FLAT, new=SLOWER), LOWER, BUILT_SAME, CONTAINER)
    assert isinstance(answer, GiveUp)
    assert answer.reason.endswith("nothing else is known to differ between the images: look at their layers")


def test_images_that_can_not_be_measured_can_not_speak() -> None:
    answer = with_images(Published(reason="the night was pruned"), LOWER, BUILT_SAME, CONTAINER)
    assert isinstance(answer, GiveUp)
    assert answer.kind is CulpritKind.NOT_REPRODUCED
    assert "the published images can't be measured (the night was pruned)" in answer.reason


def test_any_other_answer_of_the_search_stays_as_it_is() -> None:
    images = Published(old=FLAT, new=SLOWER)
    wanted = plan_commits(HOURS, {}, Policy())
    assert isinstance(wanted, Next)
    assert with_images(images, LOWER, wanted, CONTAINER) is wanted
    broken = GiveUp(kind=CulpritKind.RANGE, reason="the good end does not build")
    assert with_images(images, LOWER, broken, CONTAINER) is broken


def test_ends_that_are_built_to_one_program_are_the_same_however_far_their_values() -> None:
    values = (1.0, 1.3, 0.8, 1.6, 1.1, 1.2, 0.9, 1.4, 1.0, 1.5)
    one = Observation(values=values, program="sha256")
    found = plan_commits(HOURS, {0: one, 2: one}, Policy(repeats=5))
    assert isinstance(found, GiveUp)
    assert found.kind is CulpritKind.NOT_REPRODUCED
    assert "they are built to the same" in found.reason
    apart = [Observation(values=values, program=each) for each in ("a", "b")]
    assert isinstance(plan_commits(HOURS, {0: apart[0], 2: apart[1]}, Policy(repeats=5)), Next)
