"""Does a search find what the table hides, go on where it was killed, and say its answer once?"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL
from worlds import (
    LADDER,
    RANK8,
    WHILE,
    KilledError,
    ScriptedNights,
    ScriptedRunner,
    ask,
    emptied,
    ladder_table,
    one_schema,
    pair_of,
    play_ladder,
    recorder,
    workplace,
)

from stepwatch import wiring
from stepwatch.core.model import CommitInfo, Culprit, CulpritKind, Outcome, Verdict
from stepwatch.jobs import bisect
from stepwatch.jobs.deliver import deliver
from stepwatch.jobs.open_bisection import RefusedError, locate, open_bisection
from stepwatch.jobs.probe import Meaning, meanings
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure
from stepwatch.sections import BisectionSettings
from stepwatch.settings import Settings
from storage import reading
from storage.rows import Database
from storage.waiting import ATTEMPTS, by_priority, machine_minutes, waiting_incidents

RANK8_TITLE = f"{RANK8}(edge=5)"
REQUEST = {"benchmark": RANK8_TITLE, "good": "0.10.1", "bad": "0.10.2"}


@pytest.fixture(scope="module")
def schema(database_server: URL) -> Iterator[Database]:
    with one_schema(database_server) as opened:
        yield opened


@pytest.fixture
def runner() -> ScriptedRunner:
    """The ladder, in which jaxlib 0.10.1 can be had under jax 0.10.2, and nothing else is crossed."""
    table = ladder_table()
    table["0.10.2", "0.10.1"] = table["0.10.1", "0.10.1"]
    return ScriptedRunner(table)


@pytest.fixture
def place(schema: Database, tmp_path: Path, runner: ScriptedRunner) -> Workplace:
    return workplace(emptied(schema), tmp_path, runner)


@pytest.fixture
def watched(place: Workplace) -> Workplace:
    """A workplace that has seen the last two releases, and told of what 0.10.2 did."""
    play_ladder(place, LADDER[-2:])
    return place


def start(place: Workplace, **conf: Any) -> int:
    return open_bisection(place, locate(place.database, conf))


def carry_out(place: Workplace, bisection: int) -> tuple[Culprit, ...]:
    for phase in (bisect.search_hours, bisect.search_commits, bisect.attribute):
        while not phase(place, bisection):
            pass
    return bisect.conclude(place, bisection)


def waiting(place: Workplace) -> list[int]:
    with place.database.begin() as connection:
        return waiting_incidents(connection)


def probed(runner: ScriptedRunner) -> list[tuple[str, str]]:
    return [each for each in runner.measured if each[1].startswith("probe")]


class TestQueue:
    """Incidents 1 (0.4.33, recovered), 2 (0.10.1, an improvement) and 3 (0.10.2, standing)."""

    def test_the_most_urgent_is_searched_first(self, place: Workplace) -> None:
        play_ladder(place)
        with place.database.begin() as connection:
            assert [number for number, _ in by_priority(connection, waiting_incidents(connection))] == [
                3,
                2,
                1,
            ]
            connection.exec_driver_sql("update incident set recovered_at = null")
            assert [number for number, _ in by_priority(connection, [1, 2, 3])] == [1, 3, 2], "by size"

    def test_a_probe_costs_what_it_took(self, watched: Workplace) -> None:
        carry_out(watched, start(watched, **REQUEST))
        with watched.database.begin() as connection:
            assert 0 < machine_minutes(connection, "local") < 1
            assert machine_minutes(connection, "another") == 0
            connection.exec_driver_sql("update probe set finished_at = finished_at - interval '25 hours'")
            assert machine_minutes(connection, "local") == 0

    def test_a_budget_that_is_used_up_lets_the_rest_wait(
        self, place: Workplace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        play_ladder(place)
        carry_out(place, start(place, **REQUEST))
        with place.database.begin() as connection:
            connection.exec_driver_sql("update probe set seconds = 600")
        said: list[str] = []
        monkeypatch.setattr(wiring, "start_bisection", lambda *_, **__: {"bisection": 9})
        settings = Settings(bisection=BisectionSettings(daily_minutes=20))
        assert wiring.start_waiting(settings, place.database, say=said.append) == []
        assert said[0].startswith("incident 3 waits: the searches on local took ")
        assert said[0].endswith(" of 20 minutes")
        settings = Settings(bisection=BisectionSettings(daily_minutes=200))
        started = wiring.start_waiting(settings, place.database, say=said.append)
        assert [each["incident"] for each in started] == [3, 2, 1]


class TestAnswers:
    def test_both_kinds_of_the_ladder(self, place: Workplace, runner: ScriptedRunner) -> None:
        play_ladder(place)
        first, last, better = waiting(place)  # regressions first
        assert ask(place.database, "select incident_id, through from reporting.incidents order by 1") == [
            (first, "0.4.33"),
            (better, "0.10.1"),
            (last, "0.10.2"),
        ]

        (culprit,) = carry_out(place, start(place))
        assert (culprit.kind, culprit.after, culprit.through) == (CulpritKind.RANGE, "0.4.31", "0.4.33")
        assert culprit.reason == (
            "between 0.4.31 and 0.4.33, JAX or XLA: no crossed pair of the two can be installed, because"
            " jax 0.4.31 with jaxlib 0.4.33: jax==0.4.31 depends on jaxlib==0.4.31;"
            " jax 0.4.33 with jaxlib 0.4.31: jax==0.4.33 depends on jaxlib==0.4.33"
        )
        assert waiting(place) == [last, better]

        (culprit,) = carry_out(place, start(place))
        assert (culprit.kind, culprit.repository, culprit.commit) == (CulpritKind.COMMIT, "xla", "0.10.2")
        assert culprit.reason == (
            "XLA (jaxlib 0.10.2): jax 0.10.2 with jaxlib 0.10.1 is fast; jax 0.10.1 with jaxlib 0.10.2"
            " can't be installed: jax==0.10.1 depends on jaxlib==0.10.1"
        )
        assert culprit.change == pytest.approx(11.5, rel=0.05)
        assert culprit.baseline == pytest.approx(0.4e-3, rel=0.05)
        assert waiting(place) == [better]

        assert deliver(place.database, place.transports, print).sent == 2
        assert [thread for thread, _ in recorder(place).said[-2:]] == ["thread 1", "thread 5"]
        states = (
            "select through, state from reporting.regressions where direction = 'regression' order by 1 desc"
        )
        # what has been explained says so, what had recovered before stays so
        assert sorted(ask(place.database, states)) == [("0.10.2", "explained"), ("0.4.33", "recovered")]
        measured = "select distinct origin from run join measurement on run_id = run.id where probe_id > 0"
        assert ask(place.database, measured) == [("probe",)]
        assert runner.measured

    def test_a_probe_is_a_ratio_to_the_good_end_measured_alternately(
        self, watched: Workplace, runner: ScriptedRunner
    ) -> None:
        number = start(watched, **REQUEST)
        carry_out(watched, number)
        bad = [document for pair, document in probed(runner) if "jax@0.10.2+xla@0.10.2" in document]
        sides = [document.split("/")[1][:5] for document in bad]
        assert sides == ["old-0", "new-0", "new-1", "old-1", "old-2", "new-2", *sides[6:]]
        found = ask(
            watched.database,
            "select jax, xla, position, outcome, value, repeats from reporting.probes order by probe_id",
        )
        assert [row[:4] for row in found] == [
            ("0.10.1", "0.10.1", 0, "ok"),
            ("0.10.2", "0.10.2", 2, "ok"),
            ("0.10.1", "0.10.2", 1, "build_failed"),
            ("0.10.2", "0.10.1", None, "ok"),
        ]
        values = [value for _, _, _, _, value, _ in found if value is not None]
        assert values == pytest.approx([1.0, 12.5, 1.0], rel=0.05)
        assert all(repeats >= 3 for *_, value, repeats in found if value is not None)
        logs = ask(watched.database, "select log from reporting.probes order by probe_id")
        refused = "Because jax==0.10.1 depends on jaxlib==0.10.1"
        assert logs == [(None,), (None,), (refused,), (None,)], "of what failed"

    def test_ends_that_are_the_same_are_not_reproduced(
        self, watched: Workplace, runner: ScriptedRunner
    ) -> None:
        runner.table["0.10.2", "0.10.2"] = runner.table["0.10.1", "0.10.1"]
        (culprit,) = carry_out(watched, start(watched))
        assert culprit.kind is CulpritKind.NOT_REPRODUCED
        assert culprit.reason.startswith("the ends are the same")

    def test_an_end_that_can_not_be_measured_is_said(
        self, watched: Workplace, runner: ScriptedRunner
    ) -> None:
        crash = Failure(outcome=Outcome.BENCHMARK_FAILED, reason="signal SIGSEGV: dead")
        runner.table["0.10.2", "0.10.2"] = crash
        (culprit,) = carry_out(watched, start(watched))
        assert culprit.kind is CulpritKind.RANGE
        assert culprit.reason == "the bad end can't be measured: signal SIGSEGV: dead"

    def test_a_wrong_result_is_broken(self, watched: Workplace, runner: ScriptedRunner) -> None:
        runner.table["0.10.2", "0.10.2"] = {RANK8: ("wrong_result", "off by 3")}
        (culprit,) = carry_out(watched, start(watched))
        assert culprit.reason == "the bad end can't be measured: off by 3"

    def test_an_improvement_is_searched_like_a_regression(self, place: Workplace) -> None:
        play_ladder(place, LADDER[4:6])
        (incident,) = ask(place.database, "select id from incident where direction = 'improvement'")
        assert waiting(place) == [incident[0]]
        (culprit,) = carry_out(place, start(place))
        assert culprit.change == pytest.approx(-0.6, abs=0.01)
        assert waiting(place) == []


class TestOnce:
    def test_concluded_twice_it_is_said_once(self, watched: Workplace) -> None:
        number = start(watched)
        first = carry_out(watched, number)
        messages = ask(watched.database, "select * from outbox order by id")
        assert bisect.conclude(watched, number) == first
        assert carry_out(watched, number) == first
        assert ask(watched.database, "select * from outbox order by id") == messages
        assert ask(watched.database, "select count(*) from culprit") == [(1,)]

    def test_a_search_that_is_not_done_has_no_end(self, watched: Workplace) -> None:
        number = start(watched)
        with pytest.raises(RefusedError, match=f"the search of bisection {number} is not done"):
            bisect.conclude(watched, number)
        assert ask(watched.database, "select state from reporting.bisections") == [("open",)]
        while not bisect.search_commits(watched, number):
            pass
        with pytest.raises(RefusedError, match="is not done"):
            bisect.conclude(watched, number)

    def test_killed_after_every_process_nothing_is_measured_twice(
        self, watched: Workplace, runner: ScriptedRunner
    ) -> None:
        number, kills = start(watched), 0
        culprit = None
        for _ in range(100):
            runner.dies_after = len(runner.measured) + 1
            try:
                (culprit,) = carry_out(watched, number)
                break
            except KilledError:
                kills += 1
                probes = "select count(*) as probes, count(finished_at) as ended from probe"
                ((opened, ended),) = ask(watched.database, probes)
                assert opened - ended <= 1
        assert culprit is not None
        assert culprit.commit == "0.10.2"
        assert kills >= 10
        found = probed(runner)
        assert len(found) == len(set(found))

        again = start(watched, **REQUEST)
        runner.dies_after = None
        before = len(runner.measured)
        assert carry_out(watched, again)[0].reason == culprit.reason
        assert len(runner.measured) - before == len(found)

    def test_a_second_request_attaches_to_the_open_one(self, watched: Workplace) -> None:
        (incident,) = waiting(watched)
        number = start(watched)
        assert start(watched, incident=incident) == start(watched) == number
        bisect.give_up(watched, number, "no disk")
        assert start(watched) == number + 1

    def test_one_that_fails_too_often_waits_for_a_person(self, watched: Workplace) -> None:
        (incident,) = waiting(watched)
        for _ in range(ATTEMPTS):
            assert waiting(watched) == [incident]
            bisect.give_up(watched, start(watched), "no disk")
        assert waiting(watched) == []
        with pytest.raises(RefusedError, match="no alerted incident waits for a bisection"):
            start(watched)
        assert start(watched, incident=incident) == ATTEMPTS + 1


class TestCancel:
    def test_it_stops_before_the_next_probe(self, watched: Workplace, runner: ScriptedRunner) -> None:
        number = start(watched)
        runner.dies_after = len(runner.measured) + 4
        with pytest.raises(KilledError):
            bisect.search_commits(watched, number)
        runner.dies_after = None
        assert bisect.cancel(watched.database, number)
        assert not bisect.cancel(watched.database, number)
        before = list(runner.measured)
        for phase in (bisect.search_hours, bisect.search_commits, bisect.attribute):
            with pytest.raises(RefusedError, match=f"bisection {number} was cancelled"):
                phase(watched, number)
        assert runner.measured == before
        assert waiting(watched) == []
        assert ask(watched.database, "select state, reason from bisection") == [("cancelled", "by request")]

    def test_what_was_cancelled_before_its_end_says_nothing(self, watched: Workplace) -> None:
        number = start(watched)
        while not (bisect.search_commits(watched, number) and bisect.attribute(watched, number)):
            pass
        bisect.cancel(watched.database, number)
        bisect.conclude(watched, number)
        assert ask(watched.database, "select kind from reporting.messages") == [("head",)]
        assert ask(watched.database, "select state from bisection") == [("cancelled",)]
        assert ask(watched.database, "select state from reporting.regressions") == [("confirmed",)]

    def test_a_runner_that_was_cancelled_leaves_the_probe_open(
        self, watched: Workplace, runner: ScriptedRunner
    ) -> None:
        number = start(watched)
        runner.odd[f"probe__{number}__jax@0.10.1+xla@0.10.1"] = Failure(
            outcome=Outcome.CANCELLED, reason="cancelled while it ran"
        )
        with pytest.raises(RefusedError, match="cancelled while it was measured"):
            bisect.search_commits(watched, number)
        assert ask(watched.database, "select outcome from probe") == [(None,)]
        runner.odd.clear()
        assert carry_out(watched, number)[0].commit == "0.10.2"


class TestRefused:
    @pytest.mark.parametrize(
        ("conf", "sentence"),
        [
            ({"incdent": 1}, "unknown key incdent; accepted are incident, benchmark, good, bad, machine,"),
            ({"incident": 99}, "there is no alerted incident 99"),
            ({"machine": "gpu"}, "incident 1 is of the machine local, not gpu"),
            ({"incident": 1, "source": "other"}, "incident 1 is of the source releases, not other"),
            (
                REQUEST | {"good": "0.10.2", "bad": "0.10.1"},
                "the good end 0.10.2 is not before the bad end 0.10.1",
            ),
            (REQUEST | {"good": "9.9.9"}, "9.9.9 can't be an end: jax 9.9.9 was never released"),
            (REQUEST | {"good": "2020-01-01"}, "no night of releases is known on or before 2020-01-01"),
            (
                REQUEST | {"good": "jax@0.10.1+xla@9.9.9"},
                "jax@0.10.1+xla@9.9.9: jaxlib 9.9.9 was never released",
            ),
            (
                REQUEST | {"benchmark": "nothing"},
                "no benchmark nothing has been measured on local with the source releases",
            ),
        ],
    )
    def test_it_is_one_sentence(self, watched: Workplace, conf: dict[str, Any], sentence: str) -> None:
        with pytest.raises(RefusedError) as refused:
            start(watched, **conf)
        assert str(refused.value).startswith(sentence)
        assert ask(watched.database, "select count(*) from bisection") == [(0,)]

    def test_an_imported_series_can_not_be_run(self, watched: Workplace) -> None:
        with watched.database.begin() as connection:
            connection.exec_driver_sql("update source set kind = 'logs'")
        assert waiting(watched) == []
        with pytest.raises(RefusedError, match="incident 1 is of figures that were imported"):
            start(watched, incident=1)
        with pytest.raises(RefusedError, match="was imported; its nights can't be run"):
            start(watched, **REQUEST)

    @pytest.mark.parametrize(
        "job", [bisect.search_hours, bisect.search_commits, bisect.attribute, bisect.conclude]
    )
    def test_one_that_does_not_exist(self, place: Workplace, job: Callable[[Workplace, int], object]) -> None:
        with pytest.raises(RefusedError, match="there is no bisection 77"):
            job(place, 77)


class TestEnds:
    def test_they_are_dates_labels_or_pairs(self, watched: Workplace) -> None:
        good, bad = (pair_of(label, label).at.date().isoformat() for label in LADDER[-2:])
        ends = "select good, bad from reporting.bisections order by bisection_id desc limit 1"
        path = "select count(*) from candidate where bisection_id = :number"
        for first, last in (
            ("0.10.1", "0.10.2"),
            (good, bad),
            ("jax@0.10.1+xla@0.10.1", "jax@0.10.2+xla@0.10.2"),
        ):
            number = start(watched, benchmark=RANK8, good=first, bad=last)
            assert ask(watched.database, ends) == [(first, last)]
            assert ask(watched.database, path, number=number) == [(3,)]

    def test_the_path_goes_through_the_releases_between(self, place: Workplace) -> None:
        play_ladder(place, ("0.4.31", "0.5.0"))
        start(place, benchmark=WHILE, good="0.4.31", bad="0.5.0")
        found = ask(
            place.database,
            "select jax.ref as jax, xla.ref as xla from candidate join pair on pair.id = pair_id"
            " join revision jax on jax.id = jax_id join revision xla on xla.id = xla_id order by position",
        )
        assert found == [
            ("0.4.31", "0.4.31"),
            ("0.4.31", "0.4.33"),
            ("0.4.33", "0.4.33"),
            ("0.4.33", "0.5.0"),
            ("0.5.0", "0.5.0"),
        ]

    def test_a_gap_is_no_end(self, watched: Workplace) -> None:
        with watched.database.begin() as connection:
            connection.exec_driver_sql(
                "update night set gap_reason = 'taken back', pair_id = null where label = '0.10.1'"
            )
        with pytest.raises(RefusedError, match=r"0\.10\.1 can't be an end: taken back"):
            start(watched, **REQUEST)


FURTHER = {"benchmark": RANK8, "good": "0.5.3", "bad": "0.10.2"}


class TestSideBySide:
    """0.10.1 makes it faster, 0.10.2 slower: the second boundary is far from the reference, 0.5.3."""

    @pytest.fixture
    def further(self, place: Workplace) -> Workplace:
        play_ladder(place, LADDER[-3:])
        return place

    def test_both_sides_of_a_boundary_are_measured_alternately(
        self, further: Workplace, runner: ScriptedRunner
    ) -> None:
        found = carry_out(further, start(further, **FURTHER))
        assert [(one.kind, one.through) for one in found] == [
            (CulpritKind.RANGE, "0.10.1"),  # nothing is crossed there
            (CulpritKind.COMMIT, "0.10.2"),
        ]
        beside = [(pair, name) for pair, name in runner.measured if name.startswith("sandwich")]
        old, new = str(pair_of("0.10.1", "0.10.1")), str(pair_of("0.10.2", "0.10.2"))
        assert [pair for pair, _ in beside[:6]] == [old, new, new, old, old, new]
        culprit = found[1]
        assert culprit.change is not None
        assert culprit.low is not None
        assert culprit.high is not None
        assert culprit.low <= culprit.change <= culprit.high
        assert len(culprit.old) == len(culprit.new) == len(beside) // 2
        stored = reading_of(further, 1)["culprits"][1]
        assert (stored["old"], stored["low"]) == (list(culprit.old), culprit.low)

    def test_what_is_not_there_again_side_by_side_names_nobody(
        self, further: Workplace, runner: ScriptedRunner
    ) -> None:
        runner.odd["sandwich"] = {RANK8: 1.0}
        culprit = carry_out(further, start(further, **FURTHER))[1]
        assert culprit.kind is CulpritKind.RANGE
        assert (culprit.repository, culprit.commit) == (None, None)
        assert "measured once more, side by side, they can't be told apart: " in culprit.reason

    def test_what_can_not_be_measured_again_names_nobody(
        self, further: Workplace, runner: ScriptedRunner
    ) -> None:
        runner.odd["sandwich"] = Failure(outcome=Outcome.BENCHMARK_FAILED, reason="no memory")
        culprit = carry_out(further, start(further, **FURTHER))[1]
        assert culprit.kind is CulpritKind.RANGE
        assert culprit.reason.endswith("they can't be told apart: no memory")

    def test_killed_in_it_it_goes_on(self, further: Workplace, runner: ScriptedRunner) -> None:
        number, found = start(further, **FURTHER), ()
        for _ in range(200):
            runner.dies_after = len(runner.measured) + 1
            with contextlib.suppress(KilledError):
                found = carry_out(further, number)
                break
        assert found[1].commit == "0.10.2"
        assert len(probed(runner)) == len(set(probed(runner)))


class TestBudget:
    def test_its_probes_are_counted(self, watched: Workplace) -> None:
        (culprit,) = carry_out(watched, start(watched, **REQUEST, budget_probes=2))
        assert culprit.kind is CulpritKind.RANGE
        assert culprit.reason.endswith("the budget of 2 probes is used up")
        assert ask(watched.database, "select count(*) from probe") == [(2,)]
        (culprit,) = carry_out(watched, start(watched, **REQUEST, budget_probes=1))
        assert (culprit.kind, culprit.reason) == (CulpritKind.RANGE, "the budget of 1 probes is used up")
        (culprit,) = carry_out(watched, start(watched, **REQUEST, budget_probes=20))
        assert culprit.commit == "0.10.2"

    def test_its_minutes_are_those_of_the_machine(self, watched: Workplace) -> None:
        number = start(watched, **REQUEST, budget_minutes=30)
        with watched.database.begin() as connection:
            connection.exec_driver_sql("alter table probe alter column seconds set default 1200")
        try:
            (culprit,) = carry_out(watched, number)
        finally:
            with watched.database.begin() as connection:
                connection.exec_driver_sql("alter table probe alter column seconds set default 0")
        assert culprit.reason.endswith("the budget of 30 minutes is used up")
        assert ask(watched.database, "select count(*) from probe") == [(2,)]


def test_a_culprit_is_told_with_what_its_repository_says(
    schema: Database, tmp_path: Path, runner: ScriptedRunner
) -> None:
    at = dt.datetime(2026, 3, 4, 5, 6, tzinfo=dt.UTC)
    info = CommitInfo(author="Ada", committed_at=at, subject="Faster, surely", url="https://example.org/c/1")
    place = workplace(emptied(schema), tmp_path, runner, ScriptedNights(about={("xla", "0.10.2"): info}))
    play_ladder(place, LADDER[-2:])
    (culprit,) = carry_out(place, start(place))
    assert culprit.info == info
    assert deliver(place.database, place.transports, print).sent == 1
    (thread, told) = recorder(place).said[-1]
    assert thread is not None
    assert (
        told["lines"][0] == "xla 0.10.2: Ada, 2026-03-04 05:06 UTC: Faster, surely (https://example.org/c/1)"
    )
    stored = reading_of(place, 1)["culprits"][0]
    assert [stored[key] for key in ("author", "committed_at", "subject", "url")] == [
        "Ada",
        at,
        "Faster, surely",
        "https://example.org/c/1",
    ]


def test_what_each_probe_means_beside_the_one_before(place: Workplace) -> None:
    play_ladder(place, LADDER[-2:])
    carry_out(place, start(place))
    assert meanings(place.database, 1) == {
        ("0.10.1", "0.10.1"): Meaning(verdict=None, untried=0),
        ("0.10.1", "0.10.2"): Meaning(verdict=Verdict.BROKEN, untried=0),
        ("0.10.2", "0.10.2"): Meaning(verdict=Verdict.DIFFERENT, untried=0),
    }
    number = start(place, benchmark=RANK8, good="0.5.0", bad="0.10.2", budget_probes=2)
    carry_out(place, number)
    last = meanings(place.database, number)["0.10.2", "0.10.2"]
    assert last == Meaning(verdict=Verdict.DIFFERENT, untried=5)


def reading_of(place: Workplace, number: int) -> dict[str, Any]:
    with place.database.begin() as connection:
        found = reading.bisection(connection, number)
    assert found is not None
    return found


def test_what_is_at_hand_when_it_is_opened_is_tried_before_the_middle(
    place: Workplace, runner: ScriptedRunner
) -> None:
    play_ladder(place)
    asked = {"benchmark": RANK8, "good": "0.4.30", "bad": "0.10.2", "budget_probes": 3}
    tried = "select jax, xla from reporting.probes where bisection_id = :number order by probe_id"
    carry_out(place, start(place, **asked))
    middle = ask(place.database, tried, number=1)[2]
    runner.at_hand = tuple(str(pair_of(each, each)) for each in ("0.4.31", "0.5.3"))
    number = start(place, **asked)
    runner.at_hand = ()  # what comes and goes meanwhile changes nothing
    carry_out(place, number)
    assert ask(place.database, tried, number=2)[2] == ("0.5.3", "0.5.3") != middle
