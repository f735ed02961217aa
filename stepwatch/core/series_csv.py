"""Which series does a CSV table hold, and what did detection say about it, by the table's own times?

time,value
2023-07-06,587.9
2023-07-07,          an empty value is a gap; the order of the lines is the order of the nights
"""

from __future__ import annotations

import csv
import io
import itertools
import math
from dataclasses import dataclass
from typing import Any

from stepwatch.core.detection import Detection


@dataclass(frozen=True, kw_only=True)
class CsvSeries:
    """The rows that have a value: `times` as written, `values` in the table's unit."""

    times: tuple[str, ...]
    values: tuple[float, ...]


def parse_csv(text: str) -> CsvSeries:
    """The columns `time` and `value`; others are ignored.

    ValueError: a column is missing or there twice, or a value is not a positive finite number (with its line).
    """
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")), skipinitialspace=True)
    columns = [(name or "").strip() for name in reader.fieldnames or ()]
    reader.fieldnames = columns
    for name in ("time", "value"):
        if columns.count(name) != 1:
            how = "there is no column" if name not in columns else "there is more than one column"
            raise ValueError(f"{how} {name!r}; the first line has {', '.join(columns) or 'none'}")
    try:
        rows = [(row["time"] or "", (row["value"] or "").strip(), reader.line_num) for row in reader]
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None
    present = [(time, _value(value, line)) for time, value, line in rows if value]
    return CsvSeries(times=tuple(t for t, _ in present), values=tuple(v for _, v in present))


def _value(text: str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"line {line}: the value {text!r} is not a positive finite number")
    return value


def detection_json(series: CsvSeries, detection: Detection) -> dict[str, Any]:
    """The detection with the series' own times; positions are among the values present, `stop` exclusive."""
    times, segments = series.times, detection.segments
    return {
        "segments": [
            {
                "first": times[s.start],
                "last": times[s.stop - 1],
                "start": s.start,
                "stop": s.stop,
                "level": s.level,
            }
            for s in segments
        ],
        "steps": [
            {
                "after": times[_last_on(old.start, step.index, detection.odd)],
                "through": times[step.index],
                "index": step.index,
                "ratio": step.ratio,
                "confidence": step.confidence,
            }
            for (old, _), step in zip(itertools.pairwise(segments), detection.steps, strict=True)
        ],
        "drifts": [
            {
                "first": times[drift.start],
                "last": times[drift.stop - 1],
                "slope": drift.slope,
                "total": drift.total,
            }
            for drift in detection.drifts
        ],
        "noise": {"relative": detection.noise, "source": detection.noise_source},
    }


def _last_on(start: int, stop: int, odd: frozenset[int]) -> int:
    """The last position in [start, stop) that is on its level."""
    return max((i for i in range(start, stop) if i not in odd), default=stop - 1)
