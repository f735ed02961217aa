"""Does every message arrive once, in order, as text and nothing but text?"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from worlds import MACHINE, SOURCE, Recorder, ask, emptied, pair_of

from alerts import message
from alerts.console import ConsoleTransport
from alerts.message import Message
from alerts.slack import TEXT_LIMIT, SlackTransport
from alerts.transport import DeliveryError
from stepwatch.core import model as m
from stepwatch.jobs.deliver import deliver
from storage import incidents, nights, rows
from storage.rows import Database

SCHEMA = Path(__file__).resolve().parents[2] / "shared" / "slack-blocks.schema.json"
EVIL = "<!channel> @here <https://evil.example|click> & `code` *bold* :bomb: \u202e</pre>"


@pytest.fixture
def database(schema: Database) -> Database:
    """A database in which there are two incidents."""
    with emptied(schema).begin() as connection:
        rows.ensure_machine(connection, MACHINE)
        pairs = (pair_of(label, label) for label in ("0.10.1", "0.10.2"))
        found = [
            nights.save_night(connection, m.Night(source=SOURCE, label=pair.jax.ref, at=pair.at, pair=pair))
            for pair in pairs
        ]
        for _ in range(2):
            incidents.open_incident(
                connection,
                machine="local",
                source=SOURCE,
                direction=m.Direction.REGRESSION,
                after_id=found[0],
                through_id=found[1],
            )
    return schema


def write(database: Database, incident: int, kind: str) -> None:
    with database.begin() as connection:
        said = {"title": f"{kind} of {incident}", "lines": []}
        incidents.write(connection, kind=kind, message=said, incident_id=incident)


def send(database: Database, *transports: Any) -> int:
    return deliver(database, transports, lambda _: None).sent


class TestDeliver:
    def test_in_the_order_of_writing_each_in_its_thread(self, database: Database) -> None:
        recorder = Recorder()
        for incident, kind in ((1, "head"), (2, "head"), (1, "recovered"), (2, "recovered")):
            write(database, incident, kind)
        assert send(database, recorder) == 4
        assert [(thread, said["title"]) for thread, said in recorder.said] == [
            (None, "head of 1"),
            (None, "head of 2"),
            ("thread 1", "recovered of 1"),
            ("thread 2", "recovered of 2"),
        ]
        assert send(database, recorder) == 0
        write(database, 2, "bisection 1")
        assert send(database, recorder) == 1
        assert recorder.said[-1][0] == "thread 2", "the thread is remembered, not only known in one call"

    def test_what_is_refused_stays_and_holds_back_its_own_incident(self, database: Database) -> None:
        recorder = Recorder(refuses=1)
        for incident, kind in ((1, "head"), (1, "recovered"), (2, "head")):
            write(database, incident, kind)
        assert send(database, recorder) == 1
        assert recorder.titles == ["head of 2"]
        stored = "select message_id, attempts, sent_at is not null as sent, error from reporting.deliveries order by 1"
        assert ask(database, stored) == [(1, 1, False, "nobody answers"), (3, 1, True, None)]
        assert send(database, recorder) == 2
        assert recorder.titles[1:] == ["head of 1", "recovered of 1"]
        assert ask(database, stored)[0] == (1, 2, True, None)

    def test_a_refusal_is_said(self, database: Database) -> None:
        write(database, 1, "head")
        said: list[str] = []
        done = deliver(database, [Recorder(refuses=1)], said.append)
        assert done.waiting > 0
        assert said == ["recorder: nobody answers"]

    def test_each_transport_carries_all(self, database: Database) -> None:
        first, second = Recorder(name="first"), Recorder(name="second", refuses=1)
        write(database, 1, "head")
        assert send(database, first, second) == 1
        assert send(database, first, second) == 1
        assert first.titles == second.titles == ["head of 1"]

    def test_two_at_once_send_once(self, database: Database) -> None:
        for kind in ("head", "a", "b", "c"):
            write(database, 1, kind)
        recorder = Recorder()
        with ThreadPoolExecutor(3) as pool:
            sent = [each.result() for each in [pool.submit(send, database, recorder) for _ in range(3)]]
        assert sorted(sent) == [0, 0, 4]
        assert recorder.titles == ["head of 1", "a of 1", "b of 1", "c of 1"]

    def test_killed_between_two_messages_what_was_said_stays_said(self, database: Database) -> None:
        class Dying(Recorder):
            def deliver(self, message: Message, *, thread: str | None) -> str | None:
                if len(self.said) == 1:
                    raise KeyboardInterrupt
                return super().deliver(message, thread=thread)

        for kind in ("head", "recovered"):
            write(database, 1, kind)
        dying, recorder = Dying(), Recorder()
        with pytest.raises(KeyboardInterrupt):
            send(database, dying)
        assert send(database, recorder) == 1
        assert recorder.said == [("thread 1", {"title": "recovered of 1", "lines": []})]


FACTS: dict[str, Any] = {
    "benchmark": "a.A.track_time",
    "params": {"edge": 4},
    "unit": "s",
    "better": "lower",
    "baseline": 0.002,
    "level": 0.004,
    "remeasured": True,
}


class TestWords:
    def head(self, *regressions: dict[str, Any]) -> Message:
        return message.head(
            m.Direction.REGRESSION, after="1", through="2", machine="local", regressions=regressions
        )

    def test_a_head_names_range_size_and_baseline(self) -> None:
        other = FACTS | {"params": {"edge": 8}, "level": 0.0022, "remeasured": False}
        assert message.text(self.head(FACTS, other)).splitlines() == [
            "regression: a.A.track_time(edge=4) +100.0 % against 2 ms, slower, and 1 more",
            "  between 1 (last on the old level) and 2 (first on the new one), on local",
            "  a.A.track_time(edge=4): 2 ms -> 4 ms (+100.0 % against 2 ms, slower, measured again: different)",
            "  a.A.track_time(edge=8): 2 ms -> 2.2 ms (+10.0 % against 2 ms, slower)",
        ]

    def test_a_rate_that_falls_is_slower(self) -> None:
        rate = FACTS | {
            "unit": "MLUPS",
            "better": "higher",
            "baseline": 577.3,
            "level": 536.8,
            "params": None,
        }
        assert self.head(rate)["title"] == "regression: a.A.track_time -7.0 % against 577.3 MLUPS, slower"

    def test_a_long_list_is_cut(self) -> None:
        many = [FACTS | {"params": {"edge": i}} for i in range(message.SHOWN + 5)]
        lines = self.head(*many)["lines"]
        assert len(lines) == 1 + message.SHOWN + 1
        assert lines[-1] == "… and 5 more"

    def test_a_movement_says_what_remains(self) -> None:
        line = message.movement(FACTS, before=0.004, after=0.0022, remaining=0.1)
        assert line == "a.A.track_time(edge=4): 4 ms -> 2.2 ms (now +10.0 % against 2 ms)"

    def test_messages_can_be_stored(self) -> None:
        for said in (
            self.head(FACTS),
            message.recovered("3", ["a"]),
            message.partly("3", ["a"]),
            message.retracted("3", ["a"]),
            message.explained(
                1, "b", "1", "2", [m.Culprit(kind=m.CulpritKind.RANGE, after="1", through="2")], probes=3
            ),
        ):
            assert json.loads(json.dumps(said)) == said
            assert set(said) == {"title", "lines"}

    def test_a_console_indents_a_reply(self) -> None:
        lines: list[str] = []
        console = ConsoleTransport(lines.append)
        assert console.deliver({"title": "a", "lines": ["b"]}, thread=None) == "a"
        assert console.deliver({"title": "c", "lines": ["d"]}, thread="a") is None
        assert lines == ["a\n  b", 'in the thread of "a":\n  c\n    d']


class FakeSlack(ThreadingHTTPServer):
    """Slack's `chat.postMessage` on this machine: keeps the bodies, answers as `answers` say, then well."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.posted: list[dict[str, Any]] = []
        self.answers: list[tuple[int, str]] = []
        self.tokens: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/api/"


class _Handler(BaseHTTPRequestHandler):
    server: FakeSlack

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        kind = self.headers["Content-Type"]
        posted = json.loads(body) if "json" in kind else {k: v[0] for k, v in parse_qs(body).items()}
        self.server.tokens.append(self.headers["Authorization"])
        status, text = self.server.answers.pop(0) if self.server.answers else (200, "")
        if status == 0:  # drop the connection without a word
            self.close_connection = True
            return
        if status == 200 and not text:
            self.server.posted.append(posted)
            text = json.dumps({"ok": True, "ts": f"{len(self.server.posted)}.5", "channel": "C1"})
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status == 429:
            self.send_header("Retry-After", "30")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: object) -> None:
        """Nothing to the terminal."""


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def transport(slack: FakeSlack) -> SlackTransport:
    return SlackTransport(token="xoxb-made-up", channel="#perf", base_url=slack.url)


def blocks_of(posted: dict[str, Any]) -> list[dict[str, Any]]:
    blocks = posted["blocks"]
    found: list[dict[str, Any]] = json.loads(blocks) if isinstance(blocks, str) else blocks
    return found


class TestSlack:
    def test_a_head_and_its_reply(self, slack: FakeSlack) -> None:
        sender = transport(slack)
        thread = sender.deliver({"title": "a title", "lines": ["one", "two"]}, thread=None)
        assert thread == "1.5"
        assert sender.deliver({"title": "back", "lines": []}, thread=thread) is None
        head, reply = slack.posted
        assert (head["channel"], head.get("thread_ts")) == ("#perf", None)
        assert [block["text"]["text"] for block in blocks_of(head)] == ["a title", "one\ntwo"]
        assert reply["thread_ts"] == "1.5"
        assert [block["text"]["text"] for block in blocks_of(reply)] == ["back"]
        assert set(slack.tokens) == {"Bearer xoxb-made-up"}

    def test_what_a_benchmark_says_stays_text(self, slack: FakeSlack) -> None:
        transport(slack).deliver({"title": EVIL, "lines": [EVIL, "`x`"]}, thread=None)
        (posted,) = slack.posted
        for block, words in zip(blocks_of(posted), (EVIL, f"{EVIL}\n`x`"), strict=True):
            assert block["text"]["type"] == "plain_text"
            assert block["text"]["text"] == words
            assert block["text"]["emoji"] is False, "what looks like :bomb: is none"
        for token in ("<!", "<h", "<@", "<#", "& ", "</"):
            assert token not in posted["text"]
        assert "&lt;!channel&gt; @here" in posted["text"]
        assert not posted.get("link_names")
        assert str(posted.get("parse", "none")) == "none"

    @pytest.mark.parametrize("lines", [[], ["x"], ["line " * 40] * 100, [EVIL]])
    def test_it_is_what_slacks_own_schema_accepts(self, slack: FakeSlack, lines: list[str]) -> None:
        if not SCHEMA.is_file():
            pytest.skip(f"no {SCHEMA.name} in a folder `shared` beside the clone")
        jsonschema = pytest.importorskip("jsonschema")
        transport(slack).deliver({"title": "t" * 5000, "lines": lines}, thread=None)
        (posted,) = slack.posted
        blocks = blocks_of(posted)
        definitions = json.loads(SCHEMA.read_text(encoding="utf-8"))
        jsonschema.validate({"blocks": blocks}, definitions)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"blocks": [{"type": "section", "text": {"type": "bold"}}]}, definitions)
        assert all(0 < len(block["text"]["text"]) <= TEXT_LIMIT for block in blocks)

    @pytest.mark.parametrize(
        ("answer", "sentence"),
        [
            (
                (429, json.dumps({"ok": False, "error": "ratelimited"})),
                "Slack refused the message: ratelimited",
            ),
            ((200, json.dumps({"ok": False, "error": "channel_not_found"})), "channel_not_found"),
            ((500, "<html>oops</html>"), "Slack "),
            ((503, ""), "Slack "),
            ((0, ""), "Slack did not answer: "),
        ],
    )
    def test_a_refusal_leaves_the_message_in_the_outbox(
        self, slack: FakeSlack, database: Database, answer: tuple[int, str], sentence: str
    ) -> None:
        write(database, 1, "head")
        slack.answers = [answer] * 3  # slack-sdk tries a dropped connection again by itself
        assert send(database, transport(slack)) == 0
        ((error,),) = ask(database, "select error from reporting.deliveries")
        assert sentence in error
        slack.answers = []
        assert send(database, transport(slack)) == 1
        assert len(slack.posted) == 1

    def test_nobody_listens(self) -> None:
        sender = SlackTransport(token="x", channel="y", base_url="http://127.0.0.1:1/api/")
        with pytest.raises(DeliveryError, match=r"Slack did not answer: .*refused"):
            sender.deliver({"title": "a", "lines": []}, thread=None)

    def test_the_token_is_in_no_error(self, slack: FakeSlack) -> None:
        slack.answers = [(500, "xoxb-made-up?")] * 3
        with pytest.raises(DeliveryError) as refused:
            transport(slack).deliver({"title": "a", "lines": []}, thread=None)
        assert "Bearer" not in str(refused.value)
