"""What does a search of nights that are images end with, by what the images gave and what was built in one of them?"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import pytest
from sqlalchemy.engine import URL
from worlds import (
    LADDER,
    RANK8,
    ScriptedNights,
    ScriptedRunner,
    Table,
    Values,
    ask,
    emptied,
    one_schema,
    pair_of,
    workplace,
)

from stepwatch.core import model as m
from stepwatch.jobs import bisect
from stepwatch.jobs.open_bisection import RefusedError, locate, open_bisection
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure, Opened
from storage.images import needed_digests
from storage.rows import Database

SOURCE = m.Source(kind=m.SourceKind.REGISTRY, name="nightlies")
GOOD, BAD = "0.10.1", "0.10.2"
GAP = dt.date(2024, 6, 20)
ENDS = {"benchmark": RANK8, "good": GOOD, "bad": BAD}


def image_of(label: str) -> m.Image:
    digest = "sha256:" + f"{LADDER.index(label)}" * 64
    return m.Image(
        reference=f"registry.example/jax:{label}",
        index=digest,
        digest=digest,
        platform="linux/amd64",
        platforms=("linux/amd64",),
        variables={"XLA_FLAGS": f"--xla_of={label}", "BUILD_DATE": label},
    )


class ImageNights(ScriptedNights):
    """The ladder, each release an image, the days after it without one."""

    @property
    def source(self) -> m.Source:
        return SOURCE

    def night(self, label: str) -> m.Night:
        if label == GAP.isoformat():
            at = dt.datetime.combine(GAP, dt.time(), dt.UTC)
            return m.Night(source=SOURCE, label=label, at=at, gap_reason="not published")
        return m.Night(source=SOURCE, label=label, at=self.at(label), image=image_of(label))

    def heads(self, date: dt.date) -> m.CommitPair | str:  # type: ignore[override]
        return pair_of(BAD, BAD) if date == GAP else f"no commits of {date}"


@dataclass
class ImageRunner(ScriptedRunner):
    """Pairs are measured by the table when they are built in an image, nights by `published`; `programs` are their stamps."""

    published: dict[str, float | Failure] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)
    inside: list[str] = field(default_factory=list)

    def within(self, image: m.Image | None) -> Self:
        self.inside += [image.reference] if image else []
        return self

    def open(self, pair: m.CommitPair, *, like: m.CommitPair | None = None) -> Opened | Failure:
        opened = super().open(pair, like=like)
        if isinstance(opened, Failure) or str(pair) not in self.programs:
            return opened
        return replace(opened, stamp={"jaxlib.so": self.programs[str(pair)]})

    def open_night(self, night: m.Night) -> Opened | Failure:
        environment = m.Environment(pair=pair_of(night.label, night.label), base="cpython 3.11")
        return Opened(
            python=Path(sys.executable), folder=Path("published", night.label), environment=environment
        )

    def values(self, opened: Opened) -> Values | Failure:
        if opened.folder.parent.name != "published":
            return super().values(opened)
        level = self.published[opened.folder.name]
        return level if isinstance(level, Failure) else {RANK8: level}


@pytest.fixture(scope="module")
def schema(database_server: URL) -> Iterator[Database]:
    with one_schema(database_server) as opened:
        yield opened


@pytest.fixture
def runner() -> ImageRunner:
    """A step of five that the images show and the built pairs too: jaxlib's."""
    levels = {(GOOD, GOOD): 1.0, (GOOD, BAD): 5.0, (BAD, GOOD): 1.0, (BAD, BAD): 5.0}
    table: Table = {pair: {RANK8: level} for pair, level in levels.items()}
    return ImageRunner(table, published={GOOD: 1.0, BAD: 5.0})


@pytest.fixture
def place(schema: Database, tmp_path: Path, runner: ImageRunner) -> Workplace:
    return workplace(emptied(schema), tmp_path, runner, ImageNights())


def start(place: Workplace, **conf: str) -> int:
    return open_bisection(place, locate(place.database, ENDS | conf))


def answer(place: Workplace, **conf: str) -> m.Culprit:
    number = start(place, **conf)
    for phase in (bisect.search_hours, bisect.search_commits, bisect.attribute):
        while not phase(place, number):
            pass
    (only,) = bisect.conclude(place, number)
    return only


def flat(runner: ImageRunner) -> Table:
    return {pair: {RANK8: 1.0} for pair in runner.table}


def built(runner: ImageRunner) -> set[str]:
    return {pair for pair, at in runner.measured if at.startswith("probe")}


def test_a_step_of_the_built_pairs_is_its_commits(place: Workplace, runner: ImageRunner) -> None:
    found = answer(place)
    assert (found.kind, found.repository, found.commit) == (m.CulpritKind.COMMIT, m.XLA, BAD)
    assert set(runner.inside) == {image_of(BAD).reference}


def test_nothing_is_built_where_the_images_are_the_same(place: Workplace, runner: ImageRunner) -> None:
    runner.published[BAD] = 1.0
    found = answer(place)
    assert found.kind is m.CulpritKind.NOT_REPRODUCED
    assert "the published images are the same here" in str(found.reason)
    assert built(runner) == set()


def test_a_step_of_the_images_alone_is_the_environments(place: Workplace, runner: ImageRunner) -> None:
    runner.table = flat(runner)
    found = answer(place)
    assert found.kind is m.CulpritKind.ENVIRONMENT
    assert f"XLA_FLAGS '--xla_of={GOOD}' -> '--xla_of={BAD}'" in str(found.reason)
    assert "BUILD_DATE" not in str(found.reason), "it differs between any two"


def test_an_image_that_does_not_run_leaves_the_word_to_the_built_pairs(
    place: Workplace, runner: ImageRunner
) -> None:
    start(place)  # now the series is known
    runner.published[GOOD] = Failure(outcome=m.Outcome.BENCHMARK_FAILED, reason="no GPU")
    assert answer(place).kind is m.CulpritKind.COMMIT
    runner.table = flat(runner)
    found = answer(place)
    assert found.kind is m.CulpritKind.NOT_REPRODUCED
    assert "the published images can't be measured (no GPU)" in str(found.reason)


def test_what_is_built_to_the_same_is_measured_once(place: Workplace, runner: ImageRunner) -> None:
    good = str(pair_of(GOOD, GOOD))
    runner.programs = {good: "one", str(pair_of(GOOD, BAD)): "one", str(pair_of(BAD, BAD)): "other"}
    runner.table |= {(GOOD, BAD): {RANK8: 1.0}, (BAD, GOOD): {RANK8: 5.0}}
    found = answer(place)
    assert (found.kind, found.repository) == (m.CulpritKind.COMMIT, m.JAX)
    reasons = ask(place.database, "select reason from probe where reason is not null")
    assert (f"built to the same as {good}",) in reasons
    assert str(pair_of(GOOD, BAD)) not in built(runner)


def test_a_night_without_an_image_stands_for_the_heads_at_its_end(place: Workplace) -> None:
    said: list[str] = []
    assert start(replace(place, say=said.append), bad=GAP.isoformat())
    assert f"{GAP} has no image (not published): the heads at its end stand for it" in said
    ((container,),) = ask(place.database, "select container from bisection")
    assert container == image_of(GOOD).digest, "of the only end that has an image"


@pytest.mark.parametrize(
    ("asked", "label"),
    [("good", GOOD), ("bad", BAD), ("0.5.3", "0.5.3"), (image_of(BAD).digest, BAD)],
)
def test_the_container_can_be_chosen(place: Workplace, runner: ImageRunner, asked: str, label: str) -> None:
    start(place)  # an image is known by its digest once its night has been seen
    runner.inside.clear()
    start(place, container=asked, policy="exhaustive")
    assert set(runner.inside) == {image_of(label).reference}


def test_the_image_of_an_open_search_stays(place: Workplace) -> None:
    number = start(place)

    def needed() -> list[str]:
        with place.database.begin() as connection:
            return needed_digests(connection, controls=(), newest=0)

    assert needed() == [image_of(BAD).digest]
    bisect.cancel(place.database, number)
    assert needed() == []


def test_a_container_that_is_not_known_is_refused(place: Workplace) -> None:
    with pytest.raises(RefusedError, match=r"container 'sha256:0{64}': no such image is known"):
        start(place, container="sha256:" + "0" * 64)
    releases = workplace(place.database, place.runs, ScriptedRunner({}))
    with pytest.raises(RefusedError, match="which has no images; accepted is a source of kind registry"):
        start(releases, container="good")
    assert ask(place.database, "select count(*) from bisection") == [(0,)]
