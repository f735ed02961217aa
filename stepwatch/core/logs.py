"""Which nights does a benchmark's output tell of, and what did each of them measure?

Two forms are read: what `grep MLUPS OUT*` prints, with the night's file in front of each line,

    OUT-07-24-x:...          no night: rejected, with its number
    OUT-07-25:MLUPS: 577.3   a result
    OUT-08-25:  File "…"     a night that ran and has no result: failed, its last line is the reason

and whole files named OUT-07-25. A night of which there is no line, between the first and the last, is a gap. A line
repeated changes nothing; a second, different value for a night is rejected, like whatever can't be read.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stepwatch.core.model import Outcome, Point

_NAME = re.compile(r"(?:.*/)?OUT-(?P<month>\d\d)-(?P<day>\d\d)")
_LINE = re.compile(rf"(?P<name>{_NAME.pattern}):(?P<text>.*)")
NO_LINE = "no line in the log"


@dataclass(frozen=True, kw_only=True)
class LogNight:
    """One calendar night: a value, or the line that a failed run left, or neither (a gap)."""

    date: dt.date
    value: float | None = None
    failure: str | None = None

    @property
    def gap(self) -> bool:
        """Whether nothing at all is known of this night."""
        return self.value is None and self.failure is None

    @property
    def label(self) -> str:
        """The date, as nights are labelled."""
        return self.date.isoformat()


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """A line that was not taken, with its number (from 1, in `name` where whole files were read)."""

    number: int
    line: str
    why: str
    name: str | None = None


@dataclass(frozen=True, kw_only=True)
class LogNights:
    """All calendar nights from the first to the last, by date, and the lines that were not taken."""

    nights: tuple[LogNight, ...]
    rejected: tuple[Rejected, ...]


def parse_log(text: str, pattern: str, year: int) -> LogNights:
    """The nights of `grep` output. `pattern` is a regular expression whose first group is the value.

    ValueError: the pattern is no regular expression or has no group.
    """
    reader = _Reader(pattern)
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.fullmatch(line)
        date = _date(match, year) if match else None
        if match and date:
            reader.read(date, match["text"], number, line, None)
        elif line.strip():
            reader.reject(number, line, "not `OUT-month-day:text`", None)
    return reader.finish()


def parse_files(files: Mapping[str, str], pattern: str, year: int) -> LogNights:
    """The nights of whole output files, by their names (`OUT-07-06`). ValueError: as for parse_log."""
    reader = _Reader(pattern)
    for name, text in sorted(files.items()):
        match = _NAME.fullmatch(name)
        date = _date(match, year) if match else None
        if date is None:
            reader.reject(0, name, "the file is not named `OUT-month-day`", name)
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            reader.read(date, line, number, line, name)
        reader.ran(date)
    return reader.finish()


def log_points(nights: Iterable[LogNight]) -> tuple[Point, ...]:
    """The nights as points of a series, at midnight UTC."""
    return tuple(
        Point(
            label=night.label,
            at=dt.datetime.combine(night.date, dt.time(), tzinfo=dt.UTC),
            value=night.value,
            outcome=_outcome(night),
        )
        for night in nights
    )


def _outcome(night: LogNight) -> Outcome | None:
    if night.gap:
        return None
    return Outcome.OK if night.value is not None else Outcome.BENCHMARK_FAILED


def _date(match: re.Match[str], year: int) -> dt.date | None:
    try:
        return dt.date(year, int(match["month"]), int(match["day"]))
    except ValueError:
        return None


class _Reader:
    """Gathers lines into nights."""

    def __init__(self, pattern: str) -> None:
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"the pattern {pattern!r} is not a regular expression: {error}") from None
        if self._pattern.groups < 1:
            raise ValueError(f"the pattern {pattern!r} has no group (…) around the value")
        self._values: dict[dt.date, float] = {}
        self._failures: dict[dt.date, str] = {}
        self._rejected: list[Rejected] = []

    def read(self, date: dt.date, text: str, number: int, line: str, name: str | None) -> None:
        match = self._pattern.search(text)
        if match is None:
            if text.strip():
                self._failures[date] = text.strip()
            return
        value = _number(match[1])
        if value is None:
            self.reject(number, line, f"{match[1]!r} is not a positive finite number", name)
        elif self._values.setdefault(date, value) != value:
            self.reject(number, line, f"{date} has the value {self._values[date]} already", name)

    def ran(self, date: dt.date) -> None:
        self._failures.setdefault(date, "no output")

    def reject(self, number: int, line: str, why: str, name: str | None) -> None:
        self._rejected.append(Rejected(number=number, line=line, why=why, name=name))

    def finish(self) -> LogNights:
        dates = sorted({*self._values, *self._failures})
        span = (dates[-1] - dates[0]).days + 1 if dates else 0
        calendar = [dates[0] + dt.timedelta(days=i) for i in range(span)]
        return LogNights(
            nights=tuple(
                LogNight(
                    date=date,
                    value=self._values.get(date),
                    failure=None if date in self._values else self._failures.get(date),
                )
                for date in calendar
            ),
            rejected=tuple(self._rejected),
        )


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None
