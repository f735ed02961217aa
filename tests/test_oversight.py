"""Does the detector say when it behaves oddly itself?"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from terminal import Terminal
from worlds import LADDER, ScriptedRunner, ask, ladder_table, play_ladder, recorder, workplace

from stepwatch.core.model import Direction, Verdict
from stepwatch.core.oversight import no_data, one_sided, unreliable
from stepwatch.jobs.deliver import deliver
from stepwatch.jobs.oversee import oversee
from storage.rows import Database

NOW = dt.datetime(2026, 12, 1, 12, tzinfo=dt.UTC)
DOWN, UP = Direction.REGRESSION, Direction.IMPROVEMENT
SAME, DIFFERENT = Verdict.SAME, Verdict.DIFFERENT


def test_no_data() -> None:
    assert no_data(None, NOW) is None
    assert no_data(NOW - dt.timedelta(hours=26), NOW) is None
    assert no_data(NOW - dt.timedelta(hours=50), NOW) == (
        "nothing was measured for 50 hours, since 2026-11-29 10:00 UTC"
    )


@pytest.mark.parametrize(
    ("directions", "odd"),
    [([DOWN] * 49, False), ([DOWN] * 39 + [UP] * 11, False), ([UP] * 40 + [DOWN] * 40 + [UP] * 10, True)],
)
def test_one_sided(directions: list[Direction], odd: bool) -> None:
    assert (one_sided(directions) is not None) == odd


@pytest.mark.parametrize(
    ("verdicts", "odd"),
    [
        ([SAME] * 20, False),
        ([DIFFERENT] * 20 + [SAME] * 10 + [DIFFERENT] * 10, True),
        ([DIFFERENT] * 20 + [SAME] * 9 + [DIFFERENT] * 11, False),
        ([SAME] * 5 + [DIFFERENT] * 15 + [SAME] * 10 + [DIFFERENT] * 10, False),
        ([SAME] * 12 + [DIFFERENT] * 28, False),
    ],
)
def test_unreliable(verdicts: list[Verdict], odd: bool) -> None:
    assert (unreliable(verdicts) is not None) == odd


def test_what_is_odd_is_told_once_a_day(database: Database, terminal: Terminal, tmp_path: Path) -> None:
    place = workplace(database, tmp_path, ScriptedRunner(table=ladder_table()))
    play_ladder(place, LADDER[:2])
    assert terminal("oversee").err.strip() == "nothing is odd"
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=30)
    (sentence,) = oversee(database, now=later)
    assert sentence.startswith("local: nothing was measured for 30 hours")
    assert oversee(database, now=later) == [sentence]
    assert oversee(database, now=later + dt.timedelta(days=1))
    titles = ask(database, "select message ->> 'title' from reporting.messages order by message_id")
    assert len(titles) == 2, "once a day"
    assert deliver(database, place.transports, print).sent == 2
    assert [thread for thread, _ in recorder(place).said] == [None, None]


@pytest.mark.usefixtures("database")
def test_imported_nights_are_never_missed(terminal: Terminal) -> None:
    terminal("import-logs", Path(__file__).parent / "data" / "mlups_2023.log", "--benchmark", "xlb.mlups")
    assert terminal("oversee", "--json").document == []
