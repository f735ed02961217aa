"""Where does each mark of a series' small chart go?

Geometry only: the report's template draws what is placed here. Nights stand side by side in their order, whatever
time lies between them; values go up on a linear axis, or on a logarithmic one where they span more than a factor 3.

>>> scale = Scale(low=1.0, high=100.0, log=True)
>>> [scale.part(value) for value in (1.0, 10.0, 100.0)]
[0.0, 0.5, 1.0]
>>> scale.ticks()
[1.0, 3.0, 10.0, 30.0, 100.0]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepwatch.core.detection.detect import LARGEST
from stepwatch.core.model import Direction, Outcome
from stepwatch.core.units import format_value

Facts = Mapping[str, Any]

WIDTH, HEIGHT = 360, 176
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 16, 34
LETTER = 6.2  # the width of a letter of the axes, in the chart's units
LOG_FROM = 3.0


@dataclass(frozen=True, kw_only=True)
class Scale:
    """An axis from `low` to `high`."""

    low: float
    high: float
    log: bool

    def part(self, value: float) -> float:
        """How far along the axis a value is, 0 at `low` and 1 at `high`."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """At most six round numbers on the axis."""
        if not self.log:
            step = _round_step((self.high - self.low) / 4)
            first = math.ceil(self.low / step)
            return [number * step for number in range(first, math.floor(self.high / step) + 1)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for digits in ((1, 2, 5), (1, 3), (1,)):
            found = [
                digit * 10.0**decade
                for decade in decades
                for digit in digits
                if self.low <= digit * 10.0**decade * (1 + 1e-12)
                and digit * 10.0**decade <= self.high * (1 + 1e-12)
            ]
            if len(found) <= 6:
                return found
        return found[:: math.ceil(len(found) / 6)]


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A value with its interval, where it has one (`top` is the y of the interval's high end)."""

    x: float
    y: float
    top: float | None
    bottom: float | None
    warned: bool
    text: str


@dataclass(frozen=True, kw_only=True)
class Label:
    """A number beside the axis of values or a night below the other one."""

    at: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Level:
    """A stretch at one level."""

    start: float
    stop: float
    y: float


@dataclass(frozen=True, kw_only=True)
class Range:
    """A stretch of nights in which something happened: `kind` is regression, improvement, dip or drift."""

    start: float
    stop: float
    kind: str
    told: bool
    text: str


@dataclass(frozen=True, kw_only=True)
class Miss:
    """A night without a value: `kind` is gap or failure."""

    x: float
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Everything that is drawn of one series, in units of a box of WIDTH times HEIGHT."""

    log: bool
    radius: float
    dots: tuple[Dot, ...]
    levels: tuple[Level, ...]
    ranges: tuple[Range, ...]
    misses: tuple[Miss, ...]
    numbers: tuple[Label, ...]
    nights: tuple[Label, ...]


def chart(series: Facts) -> Chart | None:
    """The chart of a row of `storage.reading.judged_series`; None where no night has a value."""
    nights: Sequence[Facts] = series["nights"]
    measured = [night for night in nights if _measured(night)]
    if not measured:
        return None
    unit = series["unit"]
    scale = _scale([*_values(measured), *_levels_of(series["steps"])])
    across = _across(len(nights))
    places = {night["label"]: across(position) for position, night in enumerate(nights)}

    def height(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * scale.part(value), 1)

    return Chart(
        log=scale.log,
        radius=round(min(3.2, max(1.1, (WIDTH - LEFT - RIGHT) / len(nights) / 2.4)), 1),
        dots=tuple(
            Dot(
                x=places[night["label"]],
                y=height(night["value"]),
                top=None if night["high"] is None else height(night["high"]),
                bottom=None if night["low"] is None else height(night["low"]),
                warned=bool(night["warnings"]),
                text="; ".join(
                    [
                        f"{night['label']}: {format_value(night['value'], unit)}{_interval(night, unit)}",
                        *(night["warnings"] or ()),
                    ]
                ),
            )
            for night in measured
        ),
        levels=tuple(
            Level(start=places[first], stop=places[last], y=height(level))
            for first, last, level in _stretches(measured, series["steps"])
        ),
        ranges=tuple(_ranges(series, places)),
        misses=tuple(_misses(nights, places)),
        numbers=tuple(
            Label(at=height(tick), text=format_value(tick, unit) if unit == "s" else f"{tick:.6g}")
            for tick in scale.ticks()
        ),
        nights=tuple(_night_labels([night["label"] for night in nights], places)),
    )


def strips(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """Each value's place from 0 to 1 on one scale that all rows share."""
    scale = _scale([value for row in rows for value in row] or [1.0])
    return [[round(scale.part(value), 3) for value in row] for row in rows]


def _measured(night: Facts) -> bool:
    return night["outcome"] == Outcome.OK and night["value"] is not None and abs(night["value"]) < LARGEST


def _values(measured: Sequence[Facts]) -> list[float]:
    return [night[key] for night in measured for key in ("value", "low", "high") if night[key] is not None]


def _levels_of(steps: Sequence[Facts]) -> list[float]:
    return [step[key] for step in steps if step["kind"] == "step" for key in ("level_before", "level_after")]


def _scale(values: Sequence[float]) -> Scale:
    low, high = min(values), max(values)
    if low > 0 and high > LOG_FROM * low:
        return Scale(low=low / 1.15, high=high * 1.15, log=True)
    # never closer than some percent around: noise of a tenth of a percent is not to look like a mountain
    edge = max(0.08 * (high - low), 0.02 * max(abs(low), abs(high)), 1e-12)
    return Scale(low=low - edge, high=high + edge, log=False)


def _round_step(width: float) -> float:
    size = 10.0 ** math.floor(math.log10(width))
    return next(digit * size for digit in (1, 2, 5, 10) if digit * size >= width * (1 - 1e-9))


def _across(count: int) -> Any:
    inside = WIDTH - LEFT - RIGHT - 16

    def place(position: int) -> float:
        part = 0.5 if count == 1 else position / (count - 1)
        return round(LEFT + 8 + inside * part, 1)

    return place


def _interval(night: Facts, unit: str) -> str:
    if night["low"] is None or night["high"] is None:
        return ""
    return f" ({format_value(night['low'], unit)} to {format_value(night['high'], unit)})"


def _stretches(measured: Sequence[Facts], steps: Sequence[Facts]) -> list[tuple[str, str, float]]:
    """(first night, last night, level) between the steps; nothing where no step is known, for no level is either."""
    lasting = [step for step in steps if step["kind"] == "step"]
    if not lasting:
        return []
    firsts = [measured[0]["label"], *(step["through"] for step in lasting)]
    lasts = [*(step["after"] for step in lasting), measured[-1]["label"]]
    levels = [lasting[0]["level_before"], *(step["level_after"] for step in lasting)]
    return list(zip(firsts, lasts, levels, strict=True))


def _ranges(series: Facts, places: Mapping[str, float]) -> list[Range]:
    found = [
        Range(
            start=places[each["after"]],
            stop=places[each["through"]],
            kind=each["direction"],
            told=each["raised"] is not None,
            text=f"{each['direction']} in ({each['after']}, {each['through']}], {each['state']}",
        )
        for each in series["regressions"]
        if each["direction"] != Direction.DRIFT
    ]
    found += [
        Range(
            start=places[dip["after"]] - 3,
            stop=places[dip["through"]] + 3,
            kind="dip",
            told=False,
            text=f"a dip from {dip['after']} to {dip['through']}, of which nobody was told",
        )
        for dip in series["steps"]
        if dip["kind"] == "dip"
    ]
    told = any(each["direction"] == Direction.DRIFT for each in series["regressions"])
    found += [
        Range(
            start=places[drift["after"]],
            stop=places[drift["through"]],
            kind="drift",
            told=told,
            text=(
                f"a drift of {drift['level_after'] / drift['level_before'] - 1:+.1%} from {drift['after']} to"
                f" {drift['through']}{'' if told else ', of which nobody was told'}"
            ),
        )
        for drift in series["steps"]
        if drift["kind"] == "drift"
    ]
    return found


def _misses(nights: Sequence[Facts], places: Mapping[str, float]) -> list[Miss]:
    found = []
    for night in nights:
        x, label = places[night["label"]], night["label"]
        if night["gap_reason"] is not None:
            found.append(Miss(x=x, kind="gap", text=f"{label}: a gap: {night['gap_reason']}"))
        elif night["outcome"] not in {None, Outcome.OK}:
            why = night["reason"] or "no reason is known"
            found.append(Miss(x=x, kind="failure", text=f"{label}: {night['outcome']}: {why}"))
    return found


def _night_labels(labels: Sequence[str], places: Mapping[str, float]) -> list[Label]:
    """As many of the nights as fit below the axis without touching, the last one first."""
    shown: list[Label] = []
    free = float(WIDTH)
    for label in reversed(labels):
        half = LETTER * len(label) / 2
        at = min(places[label], WIDTH - half)
        if at + half <= free:
            shown.append(Label(at=round(at, 1), text=label))
            free = at - half - LETTER
    return shown[::-1]
