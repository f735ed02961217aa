from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from stepwatch.core.detection import detect
from stepwatch.core.logs import LogNights, log_points, parse_files, parse_log
from stepwatch.core.model import Outcome
from stepwatch.core.series_csv import detection_json, parse_csv

GUIDE = (Path(__file__).parent / "data" / "mlups_2023.log").read_text(encoding="utf-8")
PATTERN = r"MLUPS: ([\d.]+)"


def parse(text: str) -> LogNights:
    return parse_log(text, PATTERN, 2023)


def test_the_guides_log_is_77_nights() -> None:
    log = parse(GUIDE)
    assert len(log.nights) == 77
    assert sum(night.value is not None for night in log.nights) == 60
    gaps = [night.label for night in log.nights if night.gap]
    assert len(gaps) == 16
    assert {"2023-07-31", "2023-08-31"} <= set(gaps)
    assert [(n.label, n.failure) for n in log.nights if n.failure] == [
        ("2023-08-25", 'File "/XLB/examples/performance/MLUPS3d.py", line 5, in <module>')
    ]
    assert (log.nights[0].label, log.nights[-1].label) == ("2023-07-06", "2023-09-20")
    assert log.rejected == ()


def test_a_repeated_tail_changes_nothing_and_a_torn_line_is_rejected_with_its_number() -> None:
    tail = "\n".join(GUIDE.splitlines()[-15:])
    log = parse(f"0899164106\n{GUIDE}{tail}\n")
    assert log.nights == parse(GUIDE).nights
    assert [(r.number, r.line) for r in log.rejected] == [(1, "0899164106")]


def test_a_second_value_of_a_night_is_rejected() -> None:
    log = parse("OUT-07-06:MLUPS: 1.5\nOUT-07-06:MLUPS: 1.5\nOUT-07-06:MLUPS: 2.5\n")
    assert [night.value for night in log.nights] == [1.5]
    assert [(r.number, r.why) for r in log.rejected] == [(3, "2023-07-06 has the value 1.5 already")]


@pytest.mark.parametrize("value", ["0.0", "-3", "nan", "inf", "1.2.3", ""])
def test_what_is_no_positive_number_is_rejected(value: str) -> None:
    log = parse_log(f"OUT-07-06:MLUPS: {value}\n", r"MLUPS: (\S*)", 2023)
    assert log.nights == ()
    assert log.rejected[0].why == f"{value!r} is not a positive finite number"


@pytest.mark.parametrize("line", ["MLUPS: 587.9", "OUT-13-40:MLUPS: 587.9", "OUT-02-29:MLUPS: 1.0", "noise"])
def test_a_line_of_no_night_is_rejected(line: str) -> None:
    assert [r.line for r in parse(line).rejected] == [line]


def test_files_are_in_folders_and_end_in_anything_grep_prints() -> None:
    assert parse("logs/2023/OUT-07-06:MLUPS: 1.5").nights[0].date == dt.date(2023, 7, 6)


def test_a_result_outweighs_what_else_a_night_printed() -> None:
    log = parse("OUT-07-06:warming up\nOUT-07-06:MLUPS: 1.5\nOUT-07-06:bye\n")
    assert [(n.value, n.failure) for n in log.nights] == [(1.5, None)]


@pytest.mark.parametrize(
    ("pattern", "sentence"), [("MLUPS", r"has no group"), ("(", "is not a regular expression")]
)
def test_a_pattern_that_can_not_be_used_is_refused(pattern: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_log(GUIDE, pattern, 2023)


def test_whole_files_give_the_same_nights() -> None:
    files = {
        "runs/OUT-07-06": "warming up\nMLUPS: 587.9\nbye\n",
        "OUT-07-08": "Traceback (most recent call last):\n  File x\nImportError: no jax\n",
        "OUT-07-09": "",
        "README": "not ours",
    }
    log = parse_files(files, PATTERN, 2023)
    assert [(n.label[5:], n.value, n.failure) for n in log.nights] == [
        ("07-06", 587.9, None),
        ("07-07", None, None),
        ("07-08", None, "ImportError: no jax"),
        ("07-09", None, "no output"),
    ]
    assert [r.name for r in log.rejected] == ["README"]


def test_points_keep_what_happened() -> None:
    points = log_points(parse("OUT-07-06:MLUPS: 1.5\nOUT-07-08:Killed\n").nights)
    assert [(p.label, p.value, p.outcome) for p in points] == [
        ("2023-07-06", 1.5, Outcome.OK),
        ("2023-07-07", None, None),
        ("2023-07-08", None, Outcome.BENCHMARK_FAILED),
    ]
    assert points[0].at == dt.datetime(2023, 7, 6, tzinfo=dt.UTC)


def table(*values: object) -> str:
    return "note,time,value\n" + "".join(f"x,t{i},{value}\n" for i, value in enumerate(values))


def test_a_csv_keeps_its_order_and_its_times() -> None:
    series = parse_csv(table(*[100.0] * 6, "", *[93.0] * 6))
    document = detection_json(series, detect(series.values))
    assert document["segments"] == [
        {"first": "t0", "last": "t5", "start": 0, "stop": 6, "level": 100.0},
        {"first": "t7", "last": "t12", "start": 6, "stop": 12, "level": 93.0},
    ]
    (step,) = document["steps"]
    assert (step["after"], step["through"], step["index"]) == ("t5", "t7", 6)
    assert step["ratio"] == pytest.approx(0.93)
    assert 0.5 < step["confidence"] < 1


def test_a_csvs_bracket_leaves_odd_nights_out() -> None:
    series = parse_csv(table(*[100.0] * 6, 97.0, *[93.0] * 6))
    (step,) = detection_json(series, detect(series.values))["steps"]
    assert (step["after"], step["through"]) == ("t5", "t7")


@pytest.mark.parametrize("text", ["", "time,other\n1,2\n", "when,value\n1,2\n"])
def test_a_missing_column_is_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"there is no column '(time|value)'"):
        parse_csv(text)


@pytest.mark.parametrize("value", ["fast", "nan", "inf", "0", "-1"])
def test_a_bad_number_is_named_with_its_line(value: str) -> None:
    with pytest.raises(ValueError, match=rf"line 3: the value '{value}' is not a positive finite number"):
        parse_csv(table(1.0, value))


def test_a_csv_of_a_spreadsheet_is_read() -> None:
    series = parse_csv('\ufefftime, value\r\n"6, July",1.5\r\n7 July, \r\n8 July,2\r\n')
    assert series.times == ("6, July", "8 July")
    assert series.values == (1.5, 2.0)


def test_an_empty_table_has_no_segment() -> None:
    series = parse_csv("time,value\n")
    found = detection_json(series, detect(series.values))
    assert (found["segments"], found["steps"], found["drifts"]) == ([], [], [])
