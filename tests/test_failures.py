"""Is a benchmark that gives no result any more followed like a regression?"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from terminal import Terminal
from worlds import LADDER, RANK8, WHILE, ScriptedRunner, ask, play_ladder, recorder, workplace

from stepwatch.core.failures import Failing, failing
from stepwatch.core.model import Outcome, Point, SuspectRange
from stepwatch.core.rules import Rule, Rulebook
from stepwatch.jobs.report import report
from stepwatch.jobs.workplace import Workplace
from storage.rows import Database
from storage.waiting import waiting_incidents

START = dt.datetime(2023, 7, 1, tzinfo=dt.UTC)
WORDS = {
    "x": Outcome.BENCHMARK_FAILED,
    "w": Outcome.WRONG_RESULT,
    "s": Outcome.SKIPPED,
    "b": Outcome.BUILD_FAILED,
}


def points(nights: str) -> list[Point]:
    return [
        Point(
            label=f"n{i}",
            at=START + dt.timedelta(days=i),
            value=1.0 if word == "1" else None,
            outcome=Outcome.OK if word == "1" else WORDS.get(word),
        )
        for i, word in enumerate(nights)
    ]


@pytest.mark.parametrize(
    ("nights", "found"),
    [
        ("111", []),
        ("xx1", []),
        ("11x1x-xx", [(1, 2, 1, "n3"), (3, 4, 3, None)]),
        ("1bb", []),
        ("1b-ww1", [(0, 3, 2, "n5")]),
    ],
)
def test_stretches(nights: str, found: list[tuple[int, int, int, str | None]]) -> None:
    assert [
        (each.suspect.after, each.suspect.through, each.nights, each.over) for each in failing(points(nights))
    ] == [(f"n{after}", f"n{through}", count, over) for after, through, count, over in found]


def test_a_stretch_is_of_its_first_kind_and_told_at_its_second_night() -> None:
    suspect = SuspectRange(after="n0", through="n1")
    assert failing(points("1s")) == [Failing(suspect=suspect, outcome=Outcome.SKIPPED, nights=1)]
    (only,) = failing(points("1sx"))
    assert (only.outcome, only.is_told) == (Outcome.SKIPPED, True)


class TestNights:
    """From 0.4.33 to 0.5.0 `while_loop` gives wrong results; from 0.5.3 on it is right again."""

    @pytest.fixture
    def place(self, database: Database, tmp_path: Path) -> Workplace:
        table: Any = {(label, label): {WHILE: 1.0, RANK8: 1.0} for label in LADDER}
        for label in ("0.4.33", "0.5.0"):
            table[label, label] = {WHILE: ("wrong_result", "off by 3"), RANK8: 1.0}
        return workplace(database, tmp_path, ScriptedRunner(table=table))

    def test_it_is_told_once_and_again_when_it_is_over(self, place: Workplace, database: Database) -> None:
        play_ladder(place, LADDER[:3])
        assert recorder(place).said == [], "one night may be an odd one"
        play_ladder(place, LADDER[3:4])
        ((thread, head),) = recorder(place).said
        assert (thread, head["title"]) == (None, f"no result: {WHILE}(edge=5): its result is wrong")
        assert head["lines"] == [
            "between 0.4.31 (the last night with a result) and 0.4.33, on local",
            f"{WHILE}(edge=5): its result is wrong: off by 3",
        ]
        with database.begin() as connection:
            assert waiting_incidents(connection) == [], "there is no speed to search by"
        play_ladder(place, LADDER[4:])
        assert [(thread, said["title"]) for thread, said in recorder(place).said[1:]] == [
            ("thread 1", "results again at 0.5.3")
        ]
        assert ask(database, "select after, through, outcome, raised, recovered from reporting.failures") == [
            ("0.4.31", "0.4.33", "wrong_result", "0.5.0", "0.5.3")
        ]
        assert ask(database, "select direction, recovered_at is null from reporting.incidents") == [
            ("failure", False)
        ]

    def test_the_report_has_it(self, place: Workplace, database: Database, tmp_path: Path) -> None:
        play_ladder(place, LADDER[:4])
        page = report(database, tmp_path / "report.html").read_text(encoding="utf-8")
        assert f"no result: {WHILE}(edge=5): its result is wrong" in page

    def test_the_command_lists_what_fails(self, place: Workplace, terminal: Terminal) -> None:
        play_ladder(place, LADDER[:4])
        (row,) = terminal("failures", "--json").document
        assert (row["benchmark"], row["reason"], row["recovered"]) == (WHILE, "off by 3", None)
        assert "off by 3" in terminal("failures").out
        play_ladder(place, LADDER[4:5])
        assert terminal("failures").out == "every benchmark gives results\n"
        assert len(terminal("failures", "--all", "--json").document) == 1

    def test_a_rule_mutes_it(self, place: Workplace) -> None:
        rules = Rulebook(rules=[Rule(match="While", says={"mute": True}, origin="1")])
        play_ladder(replace(place, rules=rules), LADDER[:5])
        assert recorder(place).said == []

    def test_what_was_over_when_it_was_first_seen_is_not_told(self, place: Workplace) -> None:
        play_ladder(place, [*LADDER[:2], *LADDER[4:], *LADDER[2:4]])
        assert recorder(place).said == []
