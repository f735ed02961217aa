"""Does the report say all that is stored, as text, and does it need nothing beside itself?"""

from __future__ import annotations

import datetime as dt
import doctest
import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from stepwatch.core import model as m
from stepwatch.core.bisection.candidates import Candidate
from stepwatch.core.rules import Rulebook
from stepwatch.jobs import charts
from stepwatch.jobs.charts import Scale, chart
from stepwatch.jobs.detect import detect_in
from stepwatch.jobs.report import report
from storage import bisections, nights, rechecks, rows, runs
from storage.engine import connect, migrate
from storage.rows import Database

EVIL = '<script>alert("1")</script>'
SOURCE = m.Source(kind=m.SourceKind.RELEASES, name="releases")
MACHINE = m.Machine(name="local")
GAP = "jaxlib 3 was taken back & <b>yanked</b>"
BENCHMARK = m.Benchmark(
    name=EVIL, version="1", params={"edge": 4}, metric="cpu_time", unit="s", better=m.Better.LOWER
)
SECTIONS = {"summary", "incidents", "series", "misses"}
VOID = {"meta", "br", "hr", "img", "input", "link", "circle", "line", "rect", "path"}
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class Page(HTMLParser):
    """A page as its tags, their attributes, and the text in each element; refuses what is not nested properly."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    @property
    def text(self) -> str:
        return " ".join("".join(data for tag, data in self.texts if tag != "style").split())

    def values(self, attribute: str) -> set[str]:
        return {attrs[attribute] or "" for _, attrs in self.tags if attribute in attrs}


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    engine = connect(database_url)
    migrate(engine)
    yield engine
    engine.dispose()


def pair(jax: str, xla: str) -> m.CommitPair:
    return m.CommitPair(
        jax=m.Revision(repository=m.JAX, ref=jax, committed_at=START),
        xla=m.Revision(repository=m.XLA, ref=xla, committed_at=START),
    )


def store_night(
    database: Database,
    number: int,
    value: float | None,
    reason: str | None = None,
    warnings: tuple[str, ...] = (),
) -> None:
    """Store the night `number`; None is a benchmark that failed for a reason."""
    label = str(number)
    with database.begin() as connection:
        rows.ensure_machine(connection, MACHINE)
        night = m.Night(
            source=SOURCE, label=label, at=START + dt.timedelta(days=number), pair=pair(label, label)
        )
        run = runs.open_run(
            connection,
            run_key=f"releases/{label}/local/core/1",
            machine="local",
            suite="core",
            origin=m.Origin.NIGHTLY,
            night_id=nights.save_night(connection, night),
        )
        runs.attach_environment(connection, run.id, m.Environment(pair=pair(label, label), base="python"))
        outcome = m.Outcome.OK if value is not None else m.Outcome.WRONG_RESULT
        samples = () if value is None else (value, value)
        measured = m.Measurement(
            benchmark=BENCHMARK,
            outcome=outcome,
            reason=reason,
            value=value,
            low=value,
            high=None if value is None else value * 1.1,
            samples=samples,
            process=tuple(range(len(samples))),
            warnings=warnings,
        )
        runs.save_measurements(connection, run.id, [measured], machine="local", protocol="1", source=SOURCE)
        runs.finish_run(connection, run.id, outcome=m.Outcome.OK)


def detect(database: Database) -> None:
    detect_in(database, machine="local", source=SOURCE, rules=Rulebook())


def store_story(database: Database) -> None:
    """Six nights: a gap, a failure, a regression that was measured again and a search with a broken pair."""
    for number, value in ((1, 0.001), (2, 0.00101), (4, 0.00099)):
        store_night(database, number, value)
    store_night(database, 5, None, reason="the sum is <wrong>")
    with database.begin() as connection:
        at = START + dt.timedelta(days=3)
        nights.save_night(connection, m.Night(source=SOURCE, label="3", at=at, gap_reason=GAP))
    store_night(database, 6, 0.2)
    detect(database)
    with database.begin() as connection:
        for recheck in rechecks.open_rechecks(connection, machine="local", source=SOURCE):
            for series in recheck.series:
                rechecks.save_evidence(
                    connection,
                    recheck_id=recheck.id,
                    series_id=series,
                    verdict=m.Verdict.DIFFERENT,
                    ratio=200.0,
                    old=(0.001, 0.0011, 0.001),
                    new=(0.2, 0.21, 0.22),
                    reason="the closest are x 180 apart",
                )
    detect(database)
    store_search(database, incident_id=1)


def store_search(database: Database, incident_id: int | None) -> None:
    with database.begin() as connection:
        number = bisections.open_bisection(
            connection,
            incident_id=incident_id,
            series_id=1,
            path=[Candidate(pair=each) for each in (pair("4", "4"), pair("6", "4"), pair("6", "6"))],
            good="4",
            bad="6",
            setup=bisections.Setup(policy="explore"),
        )
        for tried, ratios, reason in (
            (pair("4", "4"), (1.0, 1.02), None),
            (pair("6", "4"), (), "jax 6 <needs> jaxlib 6"),
            (pair("6", "6"), (201.0, 199.0), None),
        ):
            bisections.save_probe(
                connection,
                bisections.open_probe(connection, number, tried),
                outcome=m.Outcome.OK if ratios else m.Outcome.BUILD_FAILED,
                reason=reason,
                seconds=1.0,
                ratios=ratios,
                value=min(ratios, default=None),
            )
        culprit = m.Culprit(kind=m.CulpritKind.RANGE, after="4", through="6", reason="JAX or XLA <both>")
        bisections.finish_bisection(connection, number, state="finished", culprits=[culprit])


def test_nothing_is_said_to_be_nothing(database: Database, tmp_path: Path) -> None:
    page = Page(report(database, tmp_path / "new" / "report.html"))
    assert "There is nothing yet" in page.text
    assert page.values("id") == SECTIONS


def test_the_whole_story_is_told(database: Database, tmp_path: Path) -> None:
    store_story(database)
    page = Page(report(database, tmp_path / "report.html"))
    assert page.values("id") >= SECTIONS | {"incident-1"}
    for said in (
        f"regression: {EVIL}(edge=4)",
        "Nights measured4of 6, 1 gap",
        "Regressions open1",
        "in (4, 6] of releases on local",
        "1 ms → 200 ms (x 200, slower)",
        "different; the closest are x 180 apart",
        "JAX or XLA <both>",
        "build failed: jax 6 <needs> jaxlib 6",
        "x 199",
        GAP,
        "wrong result, core on local",
        "the sum is <wrong>",
        "Made by stepwatch report",
    ):
        assert said in page.text, said


def test_what_comes_from_outside_is_only_text(database: Database, tmp_path: Path) -> None:
    store_story(database)
    page = Page(report(database, tmp_path / "report.html"))
    assert {"script", "b", "wrong", "needs", "both"} & {tag for tag, _ in page.tags} == set()
    assert EVIL in page.text


def test_nothing_outside_the_file_is_needed(database: Database, tmp_path: Path) -> None:
    store_story(database)
    path = report(database, tmp_path / "report.html")
    page = Page(path)
    loading = {"script", "link", "img", "iframe", "object", "embed", "base", "image", "use"}
    assert loading & {tag for tag, _ in page.tags} == set()
    assert page.values("src") == set()
    assert page.values("href") == {"#incident-1"}
    style = "".join(data for tag, data in page.texts if tag == "style")
    assert "url(" not in style
    assert "@import" not in style
    assert "://" not in path.read_text(encoding="utf-8")


@pytest.mark.browser
def test_a_browser_shows_it_and_asks_for_nothing(database: Database, tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("chromium is not installed")
    store_story(database)
    path = report(database, tmp_path / "report.html")
    quiet = ("gpu", "quic", "background-networking", "component-update", "sync", "dev-shm-usage")
    shown = subprocess.run(
        [
            *(chromium, "--headless", "--no-sandbox", "--no-first-run", "--enable-logging=stderr"),
            *(f"--disable-{each}" for each in quiet),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in shown.stderr
    assert "What the nights say" in shown.stdout
    assert 'id="incident-1"' in shown.stdout


def test_every_drawing_says_what_it_shows(database: Database, tmp_path: Path) -> None:
    store_story(database)
    page = Page(report(database, tmp_path / "report.html"))
    drawings = [attrs for tag, attrs in page.tags if tag == "svg"]
    named = [attrs["aria-labelledby"] for attrs in drawings if attrs["class"] == "chart"]
    assert named == ["series-1-title series-1-text"]
    assert set(named[0].split()) <= page.values("id")
    strips = [attrs["aria-label"] for attrs in drawings if attrs["class"] == "strip"]
    assert strips == [
        "4: 1 ms, 1.1 ms, 1 ms",
        "6: 200 ms, 210 ms, 220 ms",
        "processes: 1, 1.02",
        "processes: 201, 199",
    ]
    titles = [data for tag, data in page.texts if tag == "title"]
    assert f"3: a gap: {GAP}" in titles
    assert "5: wrong_result: the sum is <wrong>" in titles
    assert "regression in (4, 6], confirmed" in titles or "regression in (4, 6], explained" in titles
    (described,) = [data for tag, data in page.texts if tag == "desc"]
    assert described.startswith("4 of 6 nights measured, 1 gaps, 1 failures.")


def test_a_value_with_a_warning_and_a_drift_are_marked(database: Database, tmp_path: Path) -> None:
    for number in range(1, 41):
        warnings = ("2 of 3 processes slow",) if number == 7 else ()
        store_night(database, number, 0.001 * 1.001**number, warnings=warnings)
    detect(database)
    page = report(database, tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count('<g class="dot warned">') == 1
    assert page.count("; 2 of 3 processes slow") == 2, "at the dot, and in the drawing's text"
    assert re.search(r"a drift of \+(3\.9|4\.0)% from 1 to 40, of which nobody was told", page)


def test_a_drift_that_was_told_is_an_incident_with_its_range(database: Database, tmp_path: Path) -> None:
    for number in range(1, 41):
        store_night(database, number, 0.001 * 1.002**number)
    detect(database)
    page = report(database, tmp_path / "report.html").read_text(encoding="utf-8")
    assert re.search(r"a drift of \+8\.\d% from 1 to 40(?!, of which)", page)
    assert re.search(r"drift: \S+ \+7\.\d % against", page)


def test_a_search_by_hand_has_its_place(database: Database, tmp_path: Path) -> None:
    store_night(database, 1, 0.001)
    store_search(database, incident_id=None)
    page = Page(report(database, tmp_path / "report.html"))
    assert page.values("id") >= SECTIONS | {"searches"}
    assert "asked for by hand" in page.text


def test_a_failed_run_is_said_unless_it_was_tried_again_with_success(
    database: Database, tmp_path: Path
) -> None:
    store_night(database, 1, 0.001)
    store_night(database, 2, 0.001)
    with database.begin() as connection:
        night = nights.find_night(connection, SOURCE, "2")
        again = m.Night(source=SOURCE, label="9", at=START + dt.timedelta(days=9), pair=pair("9", "9"))
        for label, night_id in (("2", night[0] if night else 0), ("9", nights.save_night(connection, again))):
            run = runs.open_run(
                connection,
                run_key=f"another/{label}",
                machine="local",
                suite="core",
                origin=m.Origin.NIGHTLY,
                attempt=2,
                night_id=night_id,
            )
            runs.finish_run(connection, run.id, outcome=m.Outcome.TIMED_OUT, reason=f"too slow at {label}")
    page = Page(report(database, tmp_path / "report.html"))
    assert "too slow at 9" in [data for tag, data in page.texts if tag == "td"]
    assert "9: timed_out: too slow at 9" in [data for tag, data in page.texts if tag == "title"]
    assert "too slow at 2" not in page.text


def test_a_report_replaces_the_one_before_and_leaves_nothing_else(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("older", encoding="utf-8")
    assert report(database, path) == path
    assert "older" not in path.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [path]


def test_a_report_that_fails_leaves_the_one_before(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path, __: Path) -> None:
        raise OSError("the disk is full")

    path = tmp_path / "report.html"
    path.write_text("older", encoding="utf-8")
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="full"):
        report(database, path)
    assert path.read_text(encoding="utf-8") == "older"


def series(values: Sequence[float | None], unit: str = "s") -> dict[str, Any]:
    return {
        "unit": unit,
        "steps": [],
        "regressions": [],
        "nights": [
            {
                "label": f"night-{number}",
                "outcome": None if value is None else "ok",
                "value": value,
                "low": None,
                "high": None,
                "warnings": None,
                "gap_reason": None,
                "reason": None,
            }
            for number, value in enumerate(values)
        ],
    }


def test_the_worked_example_of_the_charts_is_right() -> None:
    result = doctest.testmod(charts)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize(
    ("values", "log"),
    [([1.0, 2.9], False), ([1.0, 3.1], True), ([-1.0, 5.0], False), ([0.0, 0.0], False)],
)
def test_an_axis_is_logarithmic_from_a_factor_of_three(values: list[float], log: bool) -> None:
    drawn = chart(series(values))
    assert drawn is not None
    assert drawn.log is log


@pytest.mark.parametrize(
    "values", [[1e-6, 2e-6], [1e-9, 5.0], [570.0, 590.0], [12345.0, 12346.0], [1.0, 1e12], [0.0]]
)
def test_numbers_on_an_axis_are_few_and_differ(values: list[float]) -> None:
    drawn = chart(series(values, unit="MLUPS"))
    assert drawn is not None
    texts = [each.text for each in drawn.numbers]
    assert 2 <= len(texts) <= 6
    assert len(set(texts)) == len(texts)
    assert all(charts.TOP <= each.at <= charts.HEIGHT - charts.BOTTOM for each in drawn.numbers)


@pytest.mark.parametrize("count", [1, 2, 7, 77, 400])
def test_nights_below_the_axis_do_not_touch(count: int) -> None:
    drawn = chart(series([1.0] * count))
    assert drawn is not None
    width = charts.LETTER * max(len(each.text) for each in drawn.nights)
    places = [each.at for each in drawn.nights]
    assert all(right - left >= width for left, right in itertools.pairwise(places))
    assert drawn.nights[-1].text == f"night-{count - 1}"


def test_levels_stand_between_the_steps() -> None:
    told = series([1.0, 1.0, None, 2.0])
    told["steps"] = [
        {"kind": "step", "after": "night-1", "through": "night-3", "level_before": 1.0, "level_after": 2.0}
    ]
    drawn = chart(told)
    assert drawn is not None
    first, last = drawn.levels
    assert (first.start, first.stop, first.y) == (drawn.dots[0].x, drawn.dots[1].x, drawn.dots[0].y)
    assert (last.start, last.stop, last.y) == (drawn.dots[2].x, drawn.dots[2].x, drawn.dots[2].y)


def test_a_series_without_a_value_has_no_chart() -> None:
    assert chart(series([None, None])) is None


def test_a_scale_ends_at_its_ends() -> None:
    scale = Scale(low=2.0, high=4.0, log=False)
    assert [scale.part(2.0), scale.part(3.0), scale.part(4.0)] == [0.0, 0.5, 1.0]
