"""Does what people say of regressions hold, and does it keep quiet what it should?"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from terminal import Terminal
from worlds import LADDER, ScriptedRunner, ask, ladder_table, play_ladder, recorder, workplace

from stepwatch import wiring
from stepwatch.core.model import Action, Disposition
from stepwatch.core.standing import Said, Standing, stand
from stepwatch.jobs.open_bisection import RefusedError
from storage.rows import Database
from storage.waiting import waiting_incidents

NOW = dt.datetime(2026, 12, 1, 12, tzinfo=dt.UTC)
LATER, EARLIER = NOW + dt.timedelta(days=3), NOW - dt.timedelta(days=3)
NONE, ACKNOWLEDGED, SNOOZED, DISMISSED = (Standing(disposition=each) for each in Disposition)
RESTING = Standing(disposition=Disposition.SNOOZED, until=LATER)
RESTED = Standing(disposition=Disposition.SNOOZED, until=EARLIER)


def said(action: Action, **more: Any) -> Said:
    return Said(action=action, author="ann", **more)


@pytest.mark.parametrize(
    ("before", "what", "after"),
    [
        (NONE, said(Action.ACK), ACKNOWLEDGED),
        (RESTING, said(Action.ACK), ACKNOWLEDGED),
        (ACKNOWLEDGED, said(Action.SNOOZE, until=LATER), RESTING),
        (RESTED, said(Action.SNOOZE, until=LATER), RESTING),
        (NONE, said(Action.ASSIGN, assignee="bob"), Standing(assignee="bob")),
        (RESTED, said(Action.ASSIGN, assignee="bob"), Standing(assignee="bob")),
        (RESTING, said(Action.DISMISS, reason="ours"), DISMISSED),
        (DISMISSED, said(Action.REOPEN), NONE),
        (RESTING, said(Action.REOPEN), NONE),
    ],
)
def test_what_is_said_leads_to(before: Standing, what: Said, after: Standing) -> None:
    assert stand(before, what, now=NOW) == after


@pytest.mark.parametrize(
    ("before", "what", "sentence"),
    [
        (DISMISSED, said(Action.ACK), "it is dismissed; accepted is reopen"),
        (DISMISSED, said(Action.DISMISS, reason="again"), "it is dismissed; accepted is reopen"),
        (ACKNOWLEDGED, said(Action.ACK), "it is acknowledged already"),
        (NONE, said(Action.REOPEN), "it is open already"),
        (RESTED, said(Action.REOPEN), "it is open already"),
        (NONE, said(Action.SNOOZE), "until is missing; accepted is a day after today"),
        (NONE, said(Action.SNOOZE, until=EARLIER), "a snooze ends later than now"),
        (NONE, said(Action.ASSIGN, assignee="  "), "'  ' is not accepted; accepted are 1 to 500 characters"),
        (NONE, said(Action.ACK, reason="a\nb"), "'a\\nb' is not accepted; accepted are printable characters"),
        (NONE, said(Action.ACK, reason="\udcff"), "'\\udcff' is not accepted; accepted are printable"),
        (NONE, said(Action.ASSIGN), "whom it is for is missing; accepted is a name"),
        (NONE, said(Action.DISMISS), "a reason is missing; accepted is a sentence"),
    ],
)
def test_what_does_not_go_together_is_refused(before: Standing, what: Said, sentence: str) -> None:
    with pytest.raises(ValueError, match=r"accepted|already") as error:
        stand(before, what, now=NOW)
    assert str(error.value).startswith(sentence)


def test_each_is_said_in_words() -> None:
    assert said(Action.ACK).text == "acknowledged by ann"
    assert said(Action.SNOOZE, until=LATER).text == "snoozed until 2026-12-04 by ann"
    assert said(Action.ASSIGN, assignee="bob").text == "assigned to bob by ann"
    assert said(Action.DISMISS, reason="ours").text == "dismissed by ann: ours"
    assert said(Action.REOPEN).text == "reopened by ann"


class TestCommands:
    """The ladder until 0.4.33, where `while_loop` gets slow: regression 1 of incident 1."""

    @pytest.fixture
    def place(self, database: Database, tmp_path: Any) -> Any:
        place = workplace(database, tmp_path, ScriptedRunner(table=ladder_table()))
        play_ladder(place, LADDER[:3])
        return place

    def waiting(self, database: Database) -> list[int]:
        with database.begin() as connection:
            return waiting_incidents(connection)

    @pytest.mark.usefixtures("place")
    def test_who_said_what_is_kept_and_told(self, terminal: Terminal, database: Database) -> None:
        assert terminal("regressions", "ack", "1", "--by", "ann").out == "regression 1: acknowledged by ann\n"
        terminal("regressions", "assign", "1", "--to", "bob", "--by", "ann", "--reason", "knows loops")
        assert ask(
            database, "select action, assignee, reason, author from reporting.remarks order by remark_id"
        ) == [
            ("ack", None, None, "ann"),
            ("assign", "bob", "knows loops", "ann"),
        ]
        titles = ask(database, "select message ->> 'title' from reporting.messages order by message_id")
        assert [title for (title,) in titles[1:]] == [
            "acknowledged by ann",
            "assigned to bob by ann: knows loops",
        ]
        listed = terminal("regressions", "list").out
        assert "acknowledged bob" in listed
        shown = terminal("regressions", "show", "1").out
        assert ": assigned to bob by ann: knows loops\n" in shown
        assert terminal("regressions", "show", "1", "--json").document["remarks"][0]["action"] == "ack"
        assert self.waiting(database) == [1], "it is searched all the same"

    @pytest.mark.usefixtures("place")
    def test_the_dag_takes_the_same_words(self, database: Database) -> None:
        assert wiring.say_of_regressions({"action": "dismiss", "incident": 1, "reason": "ours"}) == [1]
        assert ask(database, "select action, author from reporting.remarks") == [("dismiss", "Airflow")]
        wiring.say_of_regressions({"action": "reopen", "regression": 1, "by": "ann"})
        tomorrow = (dt.datetime.now(dt.UTC) + dt.timedelta(days=1)).date().isoformat()
        wiring.say_of_regressions({"action": "snooze", "regression": 1, "until": tomorrow})
        assert ask(database, "select disposition from reporting.regressions") == [("snoozed",)]

    @pytest.mark.usefixtures("place")
    @pytest.mark.parametrize(
        ("conf", "sentence"),
        [
            ({"action": "ack"}, "accepted is either regression or incident, by its number"),
            ({"action": "ack", "regression": 1, "incident": 1}, "accepted is either regression or incident"),
            (
                {"action": "snooze", "regression": 1},
                "regression 1: until is missing; accepted is a day after",
            ),
            (
                {"action": "snooze", "regression": 1, "until": "soon"},
                "until 'soon' is not accepted; accepted is",
            ),
        ],
    )
    def test_the_dag_refuses_in_one_sentence(
        self, conf: dict[str, Any], sentence: str, database: Database
    ) -> None:
        with pytest.raises(RefusedError) as error:
            wiring.say_of_regressions(conf)
        assert str(error.value).startswith(sentence)
        assert ask(database, "select count(*) from reporting.remarks") == [(0,)]

    @pytest.mark.usefixtures("place")
    def test_a_number_that_is_given_twice_is_one(self, terminal: Terminal, database: Database) -> None:
        terminal("regressions", "ack", "1", "1")
        assert ask(database, "select count(*) from reporting.remarks") == [(1,)]

    def test_what_is_dismissed_is_quiet_until_it_is_reopened(
        self, terminal: Terminal, place: Any, database: Database
    ) -> None:
        heard = len(recorder(place).said)
        terminal("regressions", "dismiss", "--incident", "1", "--reason", "ours", "--by", "ann")
        assert terminal("regressions", "list", "--json").document == []
        assert len(terminal("regressions", "list", "--all", "--json").document) == 1
        assert self.waiting(database) == []
        play_ladder(place, LADDER[3:5])
        titles = [message["title"] for _, message in recorder(place).said[heard:]]
        assert titles == ["dismissed by ann: ours"], "neither that part of the way is back, nor all of it"
        terminal("regressions", "reopen", "1")
        assert self.waiting(database) == [1]

    @pytest.mark.usefixtures("place")
    def test_a_snooze_ends_by_itself(self, terminal: Terminal, database: Database) -> None:
        tomorrow = (dt.datetime.now(dt.UTC) + dt.timedelta(days=1)).date().isoformat()
        terminal("regressions", "snooze", "1", "--until", tomorrow)
        assert (terminal("regressions", "list", "--json").document, self.waiting(database)) == ([], [])
        with database.begin() as connection:
            connection.exec_driver_sql("update regression set snoozed_until = now() - interval '1 minute'")
        (row,) = terminal("regressions", "list", "--json").document
        assert row["disposition"] == "none"
        assert self.waiting(database) == [1]

    @pytest.mark.usefixtures("place")
    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            (("ack", "9"), "there is no regression 9; `stepwatch regressions list` names them"),
            (("ack", "--incident", "9"), "there is no incident 9; `stepwatch regressions list` names them"),
            (("ack",), "accepted is either one or more REGRESSIONS, or --incident"),
            (("reopen", "1"), "regression 1: it is open already"),
            (("snooze", "1", "--until", "2020-01-01"), "regression 1: a snooze ends later than now"),
            (("dismiss", "1", "9", "--reason", "x"), "there is no regression 9"),
        ],
    )
    def test_mistakes_store_nothing(
        self, terminal: Terminal, database: Database, words: tuple[str, ...], sentence: str
    ) -> None:
        assert terminal.refuses("regressions", *words).startswith(sentence)
        assert ask(database, "select count(*) from reporting.remarks") == [(0,)]
