"""Does triage stay right over weeks, by the jobs that the DAGs call, on a real Postgres?"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL
from worlds import ScriptedNights, ScriptedRunner, ask, emptied, one_schema, play_ladder, recorder, workplace

from stepwatch.core import model as m
from stepwatch.core.rules import Rulebook
from stepwatch.jobs.workplace import Workplace
from storage.rows import Database

WEEKS = [f"night-{number:02}" for number in range(90)]
ONE = "linear_algebra.One.track_time"


@pytest.fixture
def database(schema: Database) -> Database:
    return emptied(schema)


def levels(changes: dict[int, float], nights: Sequence[str] = WEEKS) -> list[float]:
    """A level for each night: from night `number` on it is `changes[number]`."""
    found, now = [], 1.0
    for number in range(len(nights)):
        now = changes.get(number, now)
        found.append(now)
    return found


def world(
    database: Database, folder: Path, series: dict[str, list[float]], nights: Sequence[str] = WEEKS
) -> Workplace:
    """A workplace whose night `i` measures `series[benchmark][i]` ms."""
    table: Any = {
        (label, label): {name: values[i] for name, values in series.items()} for i, label in enumerate(nights)
    }
    return workplace(database, folder, ScriptedRunner(table=table), ScriptedNights(all_labels=nights))


def runner(place: Workplace) -> ScriptedRunner:
    assert isinstance(place.runner, ScriptedRunner)
    return place.runner


def standing(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """What is current: steps, dips and drifts, and the ranges of what stands or has recovered by a step that is there."""
    return {
        "steps": ask(database, "select kind, after, through from reporting.steps order by 1, 2, 3"),
        "regressions": ask(
            database,
            "select direction, after, through from reporting.regressions r where state <> 'recovered'"
            " or direction = 'regression' and exists (select from reporting.steps s where s.series_id = r.series_id and s.through = r.through)"
            " order by 1, 2, 3",
        ),
    }


# a step, most of the way back, a smaller step; and two nights on which the machine was in trouble, a dip
STORY = levels({20: 1.25, 60: 1.02, 75: 1.1})
TROUBLE = {f"releases__night-{number}__": {ONE: 1.32} for number in (40, 41)}


def story(database: Database, folder: Path) -> Workplace:
    place = world(database, folder, {ONE: STORY})
    runner(place).odd.update(TROUBLE)
    return place


@pytest.fixture(scope="module")
def in_order(
    database_server: URL, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[tuple[Any, ...]]]:
    with one_schema(database_server) as database:
        play_ladder(story(database, tmp_path_factory.mktemp("order")), WEEKS)
        return standing(database)


class TestLate:
    def test_in_the_order_of_their_dates(self, in_order: dict[str, list[tuple[Any, ...]]]) -> None:
        assert in_order["steps"] == [
            ("dip", "night-40", "night-41"),
            ("step", "night-19", "night-20"),
            ("step", "night-59", "night-60"),
            ("step", "night-74", "night-75"),
        ]
        assert [each[1:] for each in in_order["regressions"]] == [
            ("night-19", "night-20"),
            ("night-74", "night-75"),
        ]

    @pytest.mark.parametrize("seed", range(2))
    def test_nights_in_any_order_end_the_same(
        self, database: Database, tmp_path: Path, seed: int, in_order: dict[str, list[tuple[Any, ...]]]
    ) -> None:
        shuffled = WEEKS.copy()
        random.Random(seed).shuffle(shuffled)  # noqa: S311 - an order, no secret
        play_ladder(story(database, tmp_path), shuffled)
        assert standing(database) == in_order

    def test_a_late_week_and_a_backfill(
        self, database: Database, tmp_path: Path, in_order: dict[str, list[tuple[Any, ...]]]
    ) -> None:
        late = [*WEEKS[30:70], *WEEKS[77:], *WEEKS[70:77], *reversed(WEEKS[:30])]
        play_ladder(story(database, tmp_path), late)
        assert standing(database) == in_order


def test_28_benchmarks_of_one_pair_are_one_incident_and_one_message(
    database: Database, tmp_path: Path
) -> None:
    nights = WEEKS[:12]
    series = {f"linear_algebra.B{i}.track_time": levels({5: 1.0 + 0.03 * (i + 1)}, nights) for i in range(28)}
    place = world(database, tmp_path, series, nights)
    play_ladder(place, nights)
    assert ask(
        database, "select count(*) as all, count(distinct incident_id) from reporting.regressions"
    ) == [(28, 1)]
    heads = [title for title in recorder(place).titles if title.startswith("regression: ")]
    assert len(heads) == 1


def test_a_repaired_regression_closes_in_its_thread(database: Database, tmp_path: Path) -> None:
    nights = WEEKS[:20]
    place = world(database, tmp_path, {ONE: levels({5: 1.3, 12: 1.0}, nights)}, nights)
    play_ladder(place, nights)
    (head, opened), (back, closed) = ((m["title"], thread) for thread, m in recorder(place).said)
    assert (head.startswith("regression: "), opened) == (True, None)
    assert (back, closed) == ("recovered, seen at night-12", "thread 1")


def test_a_dip_is_never_told(database: Database, tmp_path: Path) -> None:
    nights = WEEKS[:20]
    place = world(database, tmp_path, {ONE: levels({8: 1.06, 11: 1.0}, nights)}, nights)
    runner(place).odd["recheck"] = {ONE: 1.0}  # the machine was slow in those nights
    play_ladder(place, nights)
    assert recorder(place).titles == []
    assert ask(database, "select kind, after, through from reporting.steps") == [
        ("dip", "night-08", "night-10")
    ]


def test_a_step_that_the_control_makes_too_ends_as_environment(database: Database, tmp_path: Path) -> None:
    nights = WEEKS[:14]
    place = replace(world(database, tmp_path, {ONE: levels({6: 1.06}, nights)}, nights), control_days=7)
    for number, label in enumerate(nights):
        with database.begin() as connection:  # each night comes a day after the one before
            connection.exec_driver_sql(
                "update run set finished_at = finished_at - interval '1 day', created_at = created_at - interval '1 day'"
            )
            connection.exec_driver_sql(
                "update regression set first_seen_at = first_seen_at - interval '1 day'"
            )
        runner(place).odd["control"] = {ONE: 1.06 if number >= 6 else 1.0}
        play_ladder(place, [label])
    assert ask(database, "select state, raised from reporting.regressions") == [("environment", None)]
    assert not [title for title in recorder(place).titles if title.startswith("regression: ")]


@pytest.mark.parametrize(("moved", "state"), [(4, "environment"), (3, "confirmed")])
def test_where_half_of_the_series_move_with_their_surroundings_nobody_can_tell_which_did_it(
    database: Database, tmp_path: Path, moved: int, state: str
) -> None:
    """The re-measurement sees it too: the old image brings the old surroundings along."""
    nights = WEEKS[:10]
    series = {
        f"linear_algebra.B{i}.track_time": levels({5: 1.3} if i < moved else {}, nights) for i in range(6)
    }
    place = world(database, tmp_path, series, nights)
    play_ladder(place, nights[:5])
    runner(place).base = "cpython 3.11, cuda 13"
    play_ladder(place, nights[5:])
    assert ask(database, "select distinct state from reporting.regressions") == [(state,)]
    lines = [line for _, message in recorder(place).said for line in message["lines"]]
    differs = "interpreter: cpython 3.11 -> cpython 3.11, cuda 13"
    if state == "environment":
        assert recorder(place).titles == ["environment: 4 of 6 series moved on local, not by the program"]
        assert f"what differs: {differs}" in lines
    else:
        assert f"what differs beside JAX and XLA: {differs}" in lines


class TestVersions:
    NIGHTS = WEEKS[:14]

    def changing(self, database: Database, folder: Path, *, old: float, new: float) -> Workplace:
        """From night 7 on the benchmark is another version, twice as long; the program may have changed on that night too."""
        place = world(database, folder, {ONE: levels({7: 2.0 * new}, self.NIGHTS)}, self.NIGHTS)
        play_ladder(place, self.NIGHTS[:7])
        runner(place).version = "2"
        runner(place).table[self.NIGHTS[6], self.NIGHTS[6]] = {ONE: 2.0 * old}
        play_ladder(place, self.NIGHTS[7:])
        return place

    def test_a_new_version_is_silent_and_its_overlap_is_measured(
        self, database: Database, tmp_path: Path
    ) -> None:
        place = self.changing(database, tmp_path, old=1.0, new=1.0)
        assert recorder(place).titles == []
        assert ask(database, "select after, through, reason from reporting.segments where timed") == [
            ("night-06", "night-07", "benchmark version 1 -> 2")
        ]
        assert ask(database, "select after, through, verdict from reporting.evidence") == [
            ("night-06", "night-07", "same")
        ]

    def test_a_slowdown_behind_a_new_version_is_stored(self, database: Database, tmp_path: Path) -> None:
        place = self.changing(database, tmp_path, old=1.0, new=1.5)
        assert recorder(place).titles == [], "of two versions nothing is ever said to be a regression"
        ((verdict, ratio),) = ask(database, "select verdict, ratio from reporting.evidence")
        assert (verdict, ratio) == ("different", pytest.approx(1.5, rel=0.02))


class TestDrift:
    SLOPE = tuple(1.002**number for number in range(60))

    def test_it_is_told_once_and_closes(self, database: Database, tmp_path: Path) -> None:
        values = [*self.SLOPE, *[1.0] * 10]
        place = world(database, tmp_path, {ONE: values, "b.Two.track_time": values}, WEEKS[:70])
        play_ladder(place, WEEKS[:70])
        (thread, head), (answer, back) = recorder(place).said
        assert thread is None
        assert head["title"].startswith("drift: ")
        assert head["title"].endswith("slower, and 1 more")
        assert head["lines"][0] == "little by little from night-00 to night-29, by no step, on local"
        assert (answer, back["title"]) == ("thread 1", "recovered, seen at night-62")
        assert ask(database, "select direction, state from reporting.regressions") == [
            ("drift", "recovered"),
            ("drift", "recovered"),
        ]

    def test_a_pinned_baseline(self, database: Database, tmp_path: Path) -> None:
        """The step at night 10 is told for itself; the drift is what comes after the pinned night without it."""
        values = [value * (1 if number < 10 else 1.4) for number, value in enumerate(self.SLOPE)]
        place = world(database, tmp_path, {ONE: values}, WEEKS[:60])
        pinned = replace(Rulebook().triage, baseline="night-05")
        play_ladder(replace(place, rules=Rulebook(triage=pinned)), WEEKS[:60])
        kinds = [title.partition(":")[0] for title in recorder(place).titles]
        assert kinds == ["regression", "drift"]
        assert ask(database, "select after from reporting.regressions where direction = 'drift'") == [
            ("night-05",)
        ]


class TestNeighbourhood:
    NIGHTS = WEEKS[:12]

    def test_siblings_that_move_the_other_way_are_named(self, database: Database, tmp_path: Path) -> None:
        slower, faster = levels({5: 1.3}, self.NIGHTS), levels({5: 0.7}, self.NIGHTS)
        place = world(
            database,
            tmp_path,
            {ONE: slower, "linear_algebra.Two.track_time": faster, "fft.Three.track_time": faster},
            self.NIGHTS,
        )
        play_ladder(place, self.NIGHTS)
        lines = next(
            message["lines"]
            for _, message in recorder(place).said
            if message["title"].startswith("regression")
        )
        assert [line for line in lines if "the other way" in line] == [
            "the other way in the same range: linear_algebra.Two.track_time(edge=5) -29.6 % against 1.01 ms, faster"
        ]

    def test_nights_without_a_result_inside_the_range_are_named(
        self, database: Database, tmp_path: Path
    ) -> None:
        place = world(database, tmp_path, {ONE: levels({5: 1.3}, self.NIGHTS)}, self.NIGHTS)
        nights = place.nights
        assert isinstance(nights, ScriptedNights)
        nights.missing = frozenset({"night-05"})
        runner(place).table["night-06", "night-06"] = {ONE: ("failed", "it was killed")}
        play_ladder(place, self.NIGHTS)
        lines = next(
            message["lines"]
            for _, message in recorder(place).said
            if message["title"].startswith("regression")
        )
        assert (
            "without a result in between: night-05 (jax night-05 was never released), night-06 (it was killed)"
            in lines
        )

    def test_the_same_range_on_two_machines_is_linked_in_both_threads(
        self, database: Database, tmp_path: Path
    ) -> None:
        series = {ONE: levels({5: 1.3}, self.NIGHTS)}
        first = world(database, tmp_path / "first", series, self.NIGHTS)
        second = replace(
            world(database, tmp_path / "second", series, self.NIGHTS),
            machine=m.Machine(name="bench-2"),
            transports=first.transports,
        )
        play_ladder(first, self.NIGHTS)
        play_ladder(second, self.NIGHTS)
        said = recorder(first).said
        heads = [message for thread, message in said if thread is None]
        assert ["the same range on local: incident 1" in head["lines"] for head in heads] == [False, True]
        assert [(thread, message["title"]) for thread, message in said if thread is not None] == [
            ("thread 1", "the same range on bench-2: incident 2")
        ]
