"""Does what a process says beside its times reach the database, and what follows from it the people?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL
from worlds import LADDER, RANK8, ScriptedRunner, ask, emptied, one_schema, recorder, workplace

from stepwatch.jobs.detect import detect
from stepwatch.jobs.nightly import nightly
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.protocol import Failure, Opened, Process
from storage import reading
from storage.rows import Database

STILL = "interval still 4 % after 30 samples"
# a release -> (Python calls, temporary bytes) of the program
COUNTS = {
    "0.4.30": (72, 0),
    "0.4.31": (72, 0),
    "0.4.33": (214, 4096),
    "0.5.0": (220, 4096),
    "0.5.3": (220, 0),
}


@dataclass
class CountingRunner(ScriptedRunner):
    """Its processes count as well, and say on what machine they ran."""

    def bench(self, opened: Opened, process: Process) -> Mapping[str, Any] | Failure:
        document = super().bench(opened, process)
        assert not isinstance(document, Failure)
        calls, temporary = COUNTS[opened.environment.pair.jax.ref]
        written = {
            **document,
            "settings": {"autotuning": "fresh"},
            "machine": {"cpu": "EPYC"},
            "conditions": {"before": {"load": 7.1}, "after": {"load": 6.9}},
            "warnings": ["load 7.1 at start"],
            "benchmarks": [
                {
                    **result,
                    "warnings": [STILL],
                    "metrics": [
                        *result["metrics"][:2],
                        exact("python_calls_eager", "calls", calls, judged=True),
                        exact("temp_bytes", "bytes", temporary, judged=False),
                    ],
                }
                for result in document["benchmarks"]
            ],
        }
        process.out.write_text(json.dumps(written), encoding="utf-8")
        return written


def exact(metric: str, unit: str, value: float, *, judged: bool) -> dict[str, Any]:
    kind = {"metric": metric, "unit": unit, "better": "lower", "judged": judged, "exact": True}
    return {**kind, "blocks": [value]}


@pytest.fixture(scope="module")
def schema(database_server: URL) -> Iterator[Database]:
    with one_schema(database_server) as opened:
        yield opened


@pytest.fixture
def place(schema: Database, tmp_path: Path) -> Workplace:
    runner = CountingRunner({(label, label): {RANK8: 1.0} for label in LADDER})
    return workplace(emptied(schema), tmp_path, runner)


def test_warnings_counts_and_conditions_are_stored_with_each_run(place: Workplace) -> None:
    nightly(place, "0.4.30")
    assert ask(
        place.database,
        "select metric, exact, judged, value, samples, warnings from reporting.points"
        " join reporting.series using (series_id) where exact or judged order by metric",
    ) == [
        ("cpu_time", False, True, pytest.approx(1.01e-3, rel=0.02), 9, [STILL]),
        ("python_calls_eager", True, True, 72, 3, []),
        ("temp_bytes", True, False, 0, 3, []),
    ]
    process = {"settings": {"autotuning": "fresh"}, "before": {"load": 7.1}, "after": {"load": 6.9}}
    assert ask(place.database, "select warnings, fingerprint, conditions from reporting.runs") == [
        (["load 7.1 at start"], {"cpu": "EPYC"}, [process] * 3)
    ]


def test_a_changed_count_is_told_the_same_night_and_nothing_is_measured_again(place: Workplace) -> None:
    for label in COUNTS:
        nightly(place, label)
    assert len(recorder(place).said) == 1
    assert recorder(place).titles[0].startswith(f"regression: {RANK8}(edge=5) x 2.97 against 72 calls")
    assert ask(
        place.database,
        "select metric, after, through, baseline, level, state, raised, exact from reporting.regressions"
        " order by through_at",
    ) == [
        ("python_calls_eager", "0.4.31", "0.4.33", 72, 214, "confirmed", "0.4.33", True),
        ("python_calls_eager", "0.4.33", "0.5.0", 214, 220, "confirmed", None, True),
    ]
    assert ask(place.database, "select count(*) from evidence") == [(0,)]
    before = ask(place.database, "select * from reporting.steps")
    assert detect(place).told == 0
    assert ask(place.database, "select * from reporting.steps") == before


def test_a_regression_shows_the_warnings_of_its_points(place: Workplace) -> None:
    for label in LADDER[:3]:
        nightly(place, label)
    with reading.snapshot(place.database) as connection:
        shown = reading.regression(connection, 1)
        (timed,) = [row for row in reading.judged_series(connection) if not row["exact"]]
    assert shown is not None
    assert [(point["value"], point["warnings"]) for point in shown["points"]] == [
        (72, []),
        (72, []),
        (214, []),
    ]
    assert [night["warnings"] for night in timed["nights"]] == [[STILL]] * 3
