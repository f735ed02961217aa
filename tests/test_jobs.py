"""Does a night go from a label to what is said of it, whatever happens on the way, and is nothing said twice?"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import URL
from worlds import (
    LADDER,
    LEVELS,
    RANK8,
    WHILE,
    KilledError,
    ScriptedNights,
    ScriptedRunner,
    ask,
    contents,
    emptied,
    ladder_table,
    one_schema,
    play_ladder,
    recorder,
    released,
    workplace,
)

from stepwatch.core.logs import parse_log
from stepwatch.core.model import Benchmark, Better, Origin, Outcome
from stepwatch.core.rules import Rule, Rulebook
from stepwatch.jobs.bench import bench
from stepwatch.jobs.confirm import confirm
from stepwatch.jobs.deliver import deliver
from stepwatch.jobs.detect import Detected, detect
from stepwatch.jobs.import_logs import Imported, import_logs
from stepwatch.jobs.nightly import nightly
from stepwatch.jobs.record import record
from stepwatch.jobs.resolve import NoNightError, resolve
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure
from storage.rows import Database
from storage.waiting import waiting_incidents

GUIDE = (Path(__file__).parent / "data" / "mlups_2023.log").read_text(encoding="utf-8")
STEPS = """
    select benchmark, kind, after, through, level_before, level_after from reporting.steps
    join reporting.series using (series_id) order by benchmark, through_at
"""


@pytest.fixture(scope="module")
def schema(database_server: URL) -> Iterator[Database]:
    with one_schema(database_server) as opened:
        yield opened


@pytest.fixture
def runner() -> ScriptedRunner:
    return ScriptedRunner(ladder_table())


@pytest.fixture
def place(schema: Database, tmp_path: Path, runner: ScriptedRunner) -> Workplace:
    return workplace(emptied(schema), tmp_path, runner)


def outcomes(place: Workplace) -> list[tuple[object, ...]]:
    return ask(place.database, "select label, attempt, outcome, reason from reporting.runs order by run_id")


class TestLadder:
    def test_it_is_told_once_and_in_threads(self, place: Workplace, runner: ScriptedRunner) -> None:
        play_ladder(place)
        said = [(thread, message["title"]) for thread, message in recorder(place).said]
        assert said == [
            (None, f"regression: {WHILE}(edge=5) x 433 against 414 us, slower"),
            ("thread 1", "part of the way back, seen at 0.5.0"),
            ("thread 1", "recovered, seen at 0.5.3"),
            (None, f"improvement: {RANK8}(edge=5) x 0.398 against 1.01 ms, faster"),
            (None, f"regression: {RANK8}(edge=5) x 12.6 against 402 us, slower"),
        ]
        assert recorder(place).said[2][1]["lines"] == [
            f"{WHILE}(edge=5): 179 ms -> 606 us (now +46.7 % against 414 us)",
            "the step back lies between 0.4.33 and 0.5.0",
        ]
        assert ask(
            place.database,
            "select direction, after, through, recovered_at is not null as back from reporting.incidents"
            " order by incident_id",
        ) == [
            ("regression", "0.4.31", "0.4.33", True),
            ("improvement", "0.5.3", "0.10.1", False),
            ("regression", "0.10.1", "0.10.2", False),
        ]
        regressions = (
            "select benchmark, after, through, state, raised, recovered from reporting.regressions"
            " order by through_at"
        )
        assert ask(place.database, regressions) == [
            (WHILE, "0.4.31", "0.4.33", "recovered", "0.4.33", "0.5.3"),
            (RANK8, "0.5.3", "0.10.1", "recovered", "0.10.1", "0.10.2"),
            (RANK8, "0.10.1", "0.10.2", "confirmed", "0.10.2", None),
        ]

        before, measured = contents(place.database), list(runner.measured)
        play_ladder(place)
        assert len(recorder(place).said) == len(said)
        assert contents(place.database) == before
        assert runner.measured == measured

    def test_a_late_night_narrows_the_range(self, place: Workplace) -> None:
        ranges = "select benchmark, after, through, state from reporting.regressions"
        play_ladder(place, ("0.4.30", "0.4.31", "0.5.0"))
        assert ask(place.database, ranges) == [(WHILE, "0.4.31", "0.5.0", "confirmed")]
        nightly(place, "0.4.33", origin=Origin.BACKFILL)
        assert ask(place.database, ranges) == [(WHILE, "0.4.31", "0.4.33", "confirmed")]
        assert recorder(place).titles[1:] == ["part of the way back, seen at 0.5.0"]

    def test_killed_after_every_process_it_goes_on_where_it_was(
        self, place: Workplace, runner: ScriptedRunner, tmp_path: Path
    ) -> None:
        kills = 0
        for label in LADDER[:3]:
            for _ in range(10):
                runner.dies_after = len(runner.measured) + 1
                try:
                    nightly(place, label)
                    break
                except KilledError:
                    kills += 1
        found = contents_without_times(place)
        assert (kills, len(runner.measured)) == (12, 15)  # a run's last process is followed by no other

        emptied(place.database)
        whole = workplace(place.database, tmp_path / "whole", ScriptedRunner(ladder_table()))
        play_ladder(whole, LADDER[:3])
        assert found == contents_without_times(whole)
        assert recorder(place).titles == recorder(whole).titles


def contents_without_times(place: Workplace) -> object:
    queries = (
        "select run_key, origin, label, attempt, outcome, reason from reporting.runs",
        "select label, outcome, value, samples, run_key from reporting.points",
        "select after, through, verdict, ratio, old, new, reason from reporting.evidence",
        "select benchmark, direction, state, after, through, baseline, level, raised from reporting.regressions",
        "select kind, message from reporting.messages",
    )
    return [sorted(ask(place.database, query), key=repr) for query in queries]


class TestNight:
    def test_every_sample_is_kept_and_one_clock_is_judged(self, place: Workplace) -> None:
        nightly(place, "0.4.30")
        found = ask(
            place.database,
            "select benchmark, metric, judged, value, samples from reporting.points"
            " join reporting.series using (series_id) order by 1, 2",
        )
        assert [row[:3] for row in found] == [
            (WHILE, "cpu_time", True),
            (WHILE, "wall_time", False),
            (RANK8, "cpu_time", True),
            (RANK8, "wall_time", False),
        ]
        assert {row[4] for row in found} == {9}  # three blocks of three processes
        assert found[0][3] == pytest.approx(0.41e-3, rel=0.02)
        assert ask(place.database, "select distinct process from measurement") == [
            ([0, 0, 0, 1, 1, 1, 2, 2, 2],)
        ]
        assert ask(place.database, "select count(*) from evidence") == [(0,)]

    def test_one_that_was_never_released_is_a_gap(
        self, place: Workplace, runner: ScriptedRunner, tmp_path: Path
    ) -> None:
        place = workplace(place.database, tmp_path, runner, ScriptedNights(missing=frozenset({"0.5.0"})))
        play_ladder(place)
        assert ask(
            place.database, "select label, gap_reason from reporting.nights where gap_reason <> ''"
        ) == [("0.5.0", "jax 0.5.0 was never released")]
        nights = [each for each in outcomes(place) if each[0] is not None]
        assert nights == [(each, 1, "ok", None) for each in LADDER if each != "0.5.0"]
        assert "jax@0.5.0+xla@0.5.0" not in runner.opened
        assert "recovered, seen at 0.5.3" in recorder(place).titles

    def test_one_that_can_not_be_installed_is_a_gap_until_it_can(
        self, place: Workplace, runner: ScriptedRunner
    ) -> None:
        values = runner.table.pop(("0.4.31", "0.4.31"))
        play_ladder(place, LADDER[:2])
        why = "jax==0.4.31 depends on jaxlib==0.4.31"
        assert outcomes(place) == [("0.4.30", 1, "ok", None), ("0.4.31", 1, "build_failed", why)]
        gaps = "select gap_reason from reporting.nights where label = '0.4.31'"
        assert ask(place.database, gaps) == [(why,)]
        assert ask(place.database, "select log from run where attempt = 1 and outcome <> 'ok'") == [
            (f"Because {why}",)
        ]

        runner.table["0.4.31", "0.4.31"] = values
        nightly(place, "0.4.31")
        assert outcomes(place)[2:] == [("0.4.31", 2, "ok", None)]
        assert ask(place.database, gaps) == [(None,)]

    def test_one_that_crashes_has_failed_and_is_tried_again(
        self, place: Workplace, runner: ScriptedRunner
    ) -> None:
        crash = Failure(outcome=Outcome.BENCHMARK_FAILED, reason="signal SIGSEGV: dead", log="a log")
        runner.odd["releases__0.4.31__local__core__1"] = crash
        play_ladder(place, LADDER[:3])
        assert outcomes(place)[1] == ("0.4.31", 1, "benchmark_failed", "signal SIGSEGV: dead")
        points = (
            "select label, outcome, value is null as empty from reporting.series_nights where series_id = "
        )
        judged = "(select series_id from reporting.series where benchmark like 'red%' and judged) order by at"
        assert ask(place.database, points + judged) == [
            ("0.4.30", "ok", False),
            ("0.4.31", "benchmark_failed", True),
            ("0.4.33", "ok", False),
        ]
        # the range spans the night without a result
        assert ask(place.database, "select after, through from reporting.regressions") == [
            ("0.4.30", "0.4.33")
        ]

        nightly(place, "0.4.31")
        assert outcomes(place)[-1] == ("0.4.31", 2, "ok", None)
        assert ask(place.database, "select after, through from reporting.regressions") == [
            ("0.4.31", "0.4.33")
        ]

    def test_one_wrong_benchmark_takes_nothing_from_the_others(
        self, place: Workplace, runner: ScriptedRunner
    ) -> None:
        runner.table["0.4.31", "0.4.31"] = {WHILE: ("wrong_result", "off by 3"), RANK8: 1.0}
        play_ladder(place, LADDER[:2])
        assert outcomes(place) == [("0.4.30", 1, "ok", None), ("0.4.31", 1, "ok", None)]
        found = ask(
            place.database,
            "select benchmark, metric, outcome, reason, value is null as empty, samples from reporting.points"
            " join reporting.series using (series_id) where label = '0.4.31' order by 1, 2",
        )
        assert found == [
            (WHILE, "cpu_time", "wrong_result", "off by 3", True, 0),
            (WHILE, "wall_time", "wrong_result", "off by 3", True, 0),
            (RANK8, "cpu_time", "ok", None, False, 9),
            (RANK8, "wall_time", "ok", None, False, 9),
        ]
        assert ask(place.database, "select warnings from reporting.runs where label = '0.4.31'") == [
            ([f"{WHILE}: wrong_result: off by 3"],)
        ]

    def test_fresh_measures_again_as_a_new_attempt(self, place: Workplace, runner: ScriptedRunner) -> None:
        nightly(place, "0.4.30")
        runner.table["0.4.30", "0.4.30"] = {WHILE: 0.5}
        nightly(place, "0.4.30")
        assert outcomes(place) == [("0.4.30", 1, "ok", None)]
        nightly(place, "0.4.30", fresh=True)
        assert outcomes(place) == [("0.4.30", attempt, "ok", None) for attempt in (1, 2)]
        (value,) = ask(
            place.database,
            "select value from reporting.points join reporting.series using (series_id)"
            " where judged and benchmark = :name",
            name=WHILE,
        )[0]
        assert value == pytest.approx(0.5e-3, rel=0.02)
        assert ask(place.database, "select count(*) from measurement") == [(6,)]

    def test_a_date_is_the_night_of_that_day(self, place: Workplace) -> None:
        assert resolve(place, released("0.4.33").date().isoformat()).label == "0.4.33"
        with pytest.raises(NoNightError, match="nothing was released on 2020-01-01"):
            resolve(place, "2020-01-01")
        assert ask(place.database, "select label from reporting.nights") == [("0.4.33",)]

    def test_steps_in_a_wrong_order_are_refused(self, place: Workplace) -> None:
        with pytest.raises(LookupError, match=r"the night 0\.4\.30 has not been resolved"):
            bench(place, "0.4.30")
        with pytest.raises(LookupError, match="no run 'x'"):
            record(place, "x")
        resolve(place, "0.4.30")
        key = bench(place, "0.4.30")
        assert key == "releases/0.4.30/local/core/1"
        for left, file in zip((2, 1, 0), list(place.runs.glob("*/*")), strict=True):
            file.unlink()
            with pytest.raises(LookupError, match=f"the run '{key}' has {left} of 3 documents"):
                record(place, key)

    def test_recording_and_detecting_twice_at_once_is_once(self, place: Workplace) -> None:
        play_ladder(place, LADDER[:2])
        resolve(place, "0.4.33")
        key = bench(place, "0.4.33")
        assert key is not None
        with ThreadPoolExecutor(3) as pool:
            saved = [each.result() for each in [pool.submit(record, place, key) for _ in range(3)]]
            assert sorted(saved) == [0, 0, 4]
            for job in (detect, confirm, detect):
                for each in [pool.submit(job, place) for _ in range(2)]:
                    each.result()
        assert ask(place.database, "select kind from reporting.messages") == [("head",)]
        assert ask(place.database, "select verdict from reporting.evidence") == [("different",)]

    def test_a_series_of_zeros_is_left_out_and_the_others_are_not(
        self, place: Workplace, runner: ScriptedRunner
    ) -> None:
        for values in runner.table.values():
            values[RANK8] = 0.0
        play_ladder(place, LADDER[:3])
        assert ask(place.database, "select distinct benchmark from reporting.regressions") == [(WHILE,)]
        assert detect(place).left_out == (
            f"{RANK8}(edge=5) cpu_time: value 0.0 at position 0 is not a positive finite number",
        )


class TestConfirm:
    def test_what_is_the_same_again_is_told_to_nobody(self, place: Workplace, runner: ScriptedRunner) -> None:
        runner.odd["releases__0.4.33__local__core__1"] = {WHILE: 178.0, RANK8: 1.0}
        runner.table["0.4.33", "0.4.33"] = runner.table["0.4.31", "0.4.31"]
        play_ladder(place, LADDER[:3])
        assert ask(place.database, "select after, through, verdict from reporting.evidence") == [
            ("0.4.31", "0.4.33", "same")
        ]
        assert recorder(place).said == []
        assert detect(place) == Detected(told=0, suspects=0), "what has been asked is not asked again"

    def test_both_sides_are_measured_alternately(self, place: Workplace, runner: ScriptedRunner) -> None:
        play_ladder(place, LADDER[:3])
        found = [document.split("/") for _, document in runner.measured if "recheck" in document]
        sides = ("old-0", "new-0", "new-1", "old-1", "old-2", "new-2")
        assert [file for _, file in found] == [f"{side}.json" for side in sides]
        assert len({folder for folder, _ in found}) == 1
        assert [pair for pair, document in runner.measured if "recheck" in document][:2] == [
            "jax@0.4.31+xla@0.4.31",
            "jax@0.4.33+xla@0.4.33",
        ]
        # all that moved is measured, and nothing else
        assert ask(
            place.database,
            "select distinct benchmark from measurement join run on run.id = run_id"
            " join series on series.id = series_id where origin = 'recheck'",
        ) == [(WHILE,)]

    def test_what_can_not_be_measured_again_waits_for_more_nights(
        self, place: Workplace, runner: ScriptedRunner
    ) -> None:
        play_ladder(place, LADDER[:2])
        resolve(place, "0.4.33")
        record(place, str(bench(place, "0.4.33")))
        assert detect(place).suspects == 1
        del runner.table["0.4.31", "0.4.31"]
        assert confirm(place) == 1
        assert ask(place.database, "select verdict, reason, ratio from reporting.evidence") == [
            ("broken", "jax==0.4.31 depends on jaxlib==0.4.31", None)
        ]
        assert ask(place.database, "select count(*) from reporting.messages") == [(0,)]

    def test_a_run_that_was_cancelled_is_asked_for_again(
        self, place: Workplace, runner: ScriptedRunner
    ) -> None:
        runner.odd["recheck__1"] = Failure(outcome=Outcome.CANCELLED, reason="cancelled while it ran")
        play_ladder(place, LADDER[:3])
        assert ask(place.database, "select verdict from reporting.evidence") == [(None,)]
        runner.odd.clear()
        assert confirm(place) == 1
        assert ask(place.database, "select verdict from reporting.evidence") == [("different",)]


class TestBridge:
    """numpy moves between 0.4.31 and 0.4.33, and one benchmark becomes 20 % slower there."""

    EVIDENCE = "select distinct after, through, verdict, bridge from reporting.evidence order by 1"

    @pytest.fixture(autouse=True)
    def moved(self, runner: ScriptedRunner) -> None:
        runner.old_numpy = ("0.4.30", "0.4.31")
        for release in LADDER:
            slower = 1.2 if release not in runner.old_numpy else 1.0
            runner.table[release, release] = {WHILE: 1.0, RANK8: slower}

    def test_what_numpy_did_is_the_environments(self, place: Workplace, runner: ScriptedRunner) -> None:
        runner.odd["recheck"] = {WHILE: 1.0, RANK8: 1.2}
        play_ladder(place, LADDER)
        assert ask(place.database, self.EVIDENCE) == [("0.4.31", "0.4.33", "same", True)]
        assert ask(place.database, "select count(*) from reporting.evidence") == [(2,)], (
            "of every timed series"
        )
        assert runner.opened.count("jax@0.4.31+xla@0.4.31 numpy==2") == 1
        assert ask(
            place.database, "select benchmark, after, through, state, raised from reporting.regressions"
        ) == [(RANK8, "0.4.31", "0.4.33", "environment", None)]
        ((_, said),) = recorder(place).said
        assert said == {
            "title": "environment: 1 of 2 series moved on local, not by the program",
            "lines": [
                "between 0.4.31 and 0.4.33: what was measured again says that the program did not do it",
                "what differs: numpy: 1 -> 2",
                f"{RANK8}(edge=5)",
            ],
        }
        with place.database.begin() as connection:
            assert waiting_incidents(connection) == [], "and it is not searched"

    def test_what_the_program_did_is_told(self, place: Workplace) -> None:
        play_ladder(place, LADDER)
        assert ask(place.database, self.EVIDENCE)[0] == ("0.4.31", "0.4.33", "different", True)
        assert ask(place.database, "select state, raised from reporting.regressions") == [
            ("confirmed", "0.4.33")
        ]
        assert len(recorder(place).said) == 1

    def test_what_moves_with_numpy_and_yet_without_it_is_told(
        self, place: Workplace, runner: ScriptedRunner
    ) -> None:
        """Half of the series move where numpy does; over the bridge, with one numpy on both sides, they still do."""
        for release in LADDER:
            slower = 1.2 if release not in runner.old_numpy else 1.0
            runner.table[release, release] = {f"scatter.B{i}.track_time": slower for i in range(5)}
        play_ladder(place, LADDER)
        assert ask(place.database, "select distinct state from reporting.regressions") == [("confirmed",)]
        titles = recorder(place).titles
        assert [title.partition(":")[0] for title in titles] == ["regression"]

    def test_the_older_set_stands_in_where_the_newer_can_not(
        self, place: Workplace, runner: ScriptedRunner
    ) -> None:
        runner.refused = (("0.4.31", "numpy==2"),)
        play_ladder(place, LADDER[:3])
        assert ask(place.database, self.EVIDENCE)[0] == ("0.4.31", "0.4.33", "different", True)
        assert "jax@0.4.33+xla@0.4.33 numpy==1" in runner.opened

    def test_where_neither_set_can_stand_beside_both_nights_decide(
        self, place: Workplace, runner: ScriptedRunner
    ) -> None:
        runner.refused = (("0.4.31", "numpy==2"), ("0.4.33", "numpy==1"))
        play_ladder(place, LADDER[:3])
        assert ask(place.database, "select distinct verdict, reason from reporting.evidence") == [
            ("broken", "jax==0.4.31 can't have numpy==2")
        ]
        assert recorder(place).said == []


class TestImport:
    def load(self, place: Workplace, text: str, rules: Rulebook = Rulebook()) -> Imported:  # noqa: B008 - frozen
        return import_logs(
            place.database,
            parse_log(text, r"MLUPS: ([\d.]+)", 2023).nights,
            Benchmark(name="xlb.mlups", version="1", metric="value", unit="MLUPS", better=Better.HIGHER),
            source="logs",
            rules=rules,
        )

    def test_the_guides_log_is_77_nights_and_its_steps(self, place: Workplace) -> None:
        expected = Imported(nights=77, measured=60, failed=1, gaps=16, told=2, conflicts=())
        assert self.load(place, GUIDE) == expected
        assert ask(
            place.database,
            "select count(*) as nights, count(gap_reason) as gaps, count(outcome) as runs,"
            " count(*) filter (where outcome = 'benchmark_failed') as failed from reporting.series_nights",
        ) == [(77, 16, 61, 1)]
        assert [step[1:4] for step in ask(place.database, STEPS)] == [
            ("dip", "2023-07-17", "2023-07-19"),
            ("step", "2023-07-21", "2023-07-25"),
            ("step", "2023-08-24", "2023-08-26"),
        ]
        assert ask(
            place.database, "select direction, state, after, through from reporting.regressions order by 3"
        ) == [
            ("regression", "confirmed", "2023-07-21", "2023-07-25"),
            ("regression", "confirmed", "2023-08-24", "2023-08-26"),
        ]

        before = contents(place.database)
        expected = replace(expected, told=0)
        assert self.load(place, GUIDE) == expected
        tail = "\n".join(GUIDE.splitlines()[-15:])
        assert self.load(place, f"0899164106\n{GUIDE}{tail}\n") == expected
        assert contents(place.database) == before

    def test_a_rule_names_the_owner_or_mutes(self, place: Workplace) -> None:
        rules = Rulebook(rules=(Rule(match="^xlb", says={"owner": "@fluids"}, origin="1"),))
        self.load(place, GUIDE, rules)
        ((lines,), *_) = ask(place.database, "select message -> 'lines' from reporting.messages order by 1")
        assert lines[-1] == "owned by @fluids"
        emptied(place.database)
        mute = Rule(match="mlups", says={"mute": True}, origin="2")
        assert self.load(place, GUIDE, replace(rules, rules=(*rules.rules, mute))).told == 0
        assert len(ask(place.database, STEPS)) == 3, "stored all the same"
        assert ask(place.database, "select count(*) from reporting.messages") == [(0,)]

    def test_nothing_imported_is_to_be_measured_again(self, place: Workplace) -> None:
        values = (1.0, 1.01, 0.99, 1.0, 0.5)
        self.load(place, "".join(f"OUT-07-0{i}:MLUPS: {value}\n" for i, value in enumerate(values, start=1)))
        assert ask(place.database, "select count(*) from recheck") == [(0,)]

    def test_what_is_stored_stays(self, place: Workplace) -> None:
        self.load(place, "OUT-07-06:MLUPS: 1.5\nOUT-07-08:Killed\n")
        again = self.load(place, "OUT-07-06:MLUPS: 2.5\nOUT-07-07:MLUPS: 3.5\nOUT-07-09:MLUPS: 4.5\n")
        assert again.conflicts == (("2023-07-06", 1.5, 2.5),)
        assert ask(
            place.database,
            "select label, value, gap_reason, outcome from reporting.series_nights order by at",
        ) == [
            ("2023-07-06", 1.5, None, "ok"),
            ("2023-07-07", 3.5, None, "ok"),
            ("2023-07-08", None, None, "benchmark_failed"),
            ("2023-07-09", 4.5, None, "ok"),
        ]

    def test_nights_in_another_order_end_in_the_same_steps(self, place: Workplace) -> None:
        regressions = (
            "select direction, state, after, through, baseline, level from reporting.regressions order by 3"
        )
        self.load(place, GUIDE)
        steps, found = ask(place.database, STEPS), ask(place.database, regressions)
        emptied(place.database)
        lines = GUIDE.splitlines()
        for part in (lines[39:], lines[9:31], lines[:11], lines[29:41]):
            self.load(place, "\n".join(part))
        assert ask(place.database, "select count(*) from reporting.nights") == [(77,)]
        assert ask(place.database, STEPS) == steps
        assert ask(place.database, regressions) == found

    def test_two_benchmarks_share_the_nights(self, place: Workplace) -> None:
        self.load(place, "OUT-07-06:MLUPS: 1.5\n")
        import_logs(
            place.database,
            parse_log("OUT-07-06:ms: 9\n", r"ms: (\d+)", 2023).nights,
            Benchmark(name="other", version="1", metric="value", unit="ms", better=Better.LOWER),
            source="logs",
            rules=Rulebook(),
        )
        assert ask(place.database, "select count(*) from reporting.nights") == [(1,)]
        assert sorted(
            ask(
                place.database,
                "select value, unit from reporting.points join reporting.series using (series_id)",
            )
        ) == [(1.5, "MLUPS"), (9.0, "ms")]


class TestTogether:
    """Several imported benchmarks of one machine, by what their logs say on the days of January 2024."""

    def load(self, place: Workplace, name: str, values: Sequence[float | None]) -> None:
        lines = [
            f"OUT-01-{day:02d}:{'out of memory' if value is None else f'MLUPS: {value}'}"
            for day, value in enumerate(values, start=1)
        ]
        import_logs(
            place.database,
            parse_log("\n".join(lines), r"MLUPS: (\S+)", 2024).nights,
            Benchmark(name=name, version="1", metric="value", unit="MLUPS", better=Better.HIGHER),
            source="logs",
            rules=Rulebook(),
        )
        deliver(place.database, place.transports, print)

    def titles(self, place: Workplace) -> list[tuple[str | None, str]]:
        return [(thread, message["title"]) for thread, message in recorder(place).said]

    def test_who_is_confirmed_later_in_the_same_range_is_told_in_its_thread(self, place: Workplace) -> None:
        flat = [100.0, 100.1, 99.9, 100.0, 100.1, 99.9, 100.0, 100.1]
        self.load(place, "a", [*flat, 90.0, 90.1, 89.9, 90.0, 90.1])
        self.load(place, "b", [*flat, 50.0, 50.1, 49.9, 50.0, 50.1])
        assert self.titles(place) == [
            (None, "regression: a -10.0 % against 100 MLUPS, slower"),
            ("thread 1", "one more in the same range, seen at 2024-01-13"),
        ]
        assert recorder(place).said[1][1]["lines"] == [
            "b: 100 MLUPS -> 50 MLUPS (now -50.0 % against 100 MLUPS)"
        ]
        self.load(place, "b", [*flat, 50.0, 50.1, 49.9, 50.0, 50.1])
        assert len(recorder(place).said) == 2

    def test_a_failure_of_one_says_nothing_of_another(self, place: Workplace) -> None:
        self.load(place, "a", [100.0] * 5)
        self.load(place, "b", [*[100.0] * 6, None, None, None])
        assert self.titles(place) == [(None, "no result: b: it crashes or raises")]
        assert [tuple(row) for row in ask(place.database, "select benchmark from reporting.failures")] == [
            ("b",)
        ]
        self.load(place, "b", [*[100.0] * 6, None, None, None, 100.0])
        assert self.titles(place)[1:] == [("thread 1", "results again at 2024-01-10")]

    def test_what_was_dismissed_is_not_listed_when_the_others_are_back(self, place: Workplace) -> None:
        flat = [100.0, 100.1, 99.9, 100.0, 100.1, 99.9, 100.0, 100.1]
        down = [90.0, 90.1, 89.9, 90.0, 90.1]
        for name in ("a", "b"):
            self.load(place, name, [*flat, *down])
        with place.database.begin() as connection:
            connection.exec_driver_sql(
                "update regression set disposition = 'dismissed' from series"
                " where series.id = series_id and benchmark = 'a'"
            )
        for name in ("a", "b"):
            self.load(place, name, [*flat, *down, *flat])
        told = recorder(place).said[-1][1]
        assert told["title"].startswith("recovered, seen at ")
        assert [line.partition(":")[0] for line in told["lines"]] == [
            "b",
            "the step back lies between 2024-01-13 and 2024-01-14",
        ]


def test_the_worlds_times_are_in_the_order_of_its_labels() -> None:
    times = [released(label) for label in LADDER]
    assert times == sorted(times)
    assert released("unknown") > times[-1]
    assert {len(values) for values in LEVELS.values()} == {len(LADDER)}
    assert all(time.tzinfo is dt.UTC for time in times)
