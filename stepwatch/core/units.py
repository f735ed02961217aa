"""Which of two values is worse, by how much, and how is that said?

A slowdown is a ratio where worse is positive: new/old - 1 for times, old/new - 1 for rates.

>>> slowdown(old=2.0, new=3.0, better=Better.LOWER)
0.5
>>> slowdown(old=3.0, new=2.0, better=Better.HIGHER)
0.5
"""

from __future__ import annotations

import math

from stepwatch.core.model import Better, Direction

_SCALES = {"s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))}


def slowdown(*, old: float, new: float, better: Better) -> float:
    """How much worse `new` is than `old`; negative where it is better, infinite from nothing (of a count) to something."""
    worse, base = (new, old) if better is Better.LOWER else (old, new)
    return worse / base - 1 if base else (math.inf if worse else 0.0)


def direction(*, old: float, new: float, better: Better) -> Direction:
    """Whether going from `old` to `new` is a regression or an improvement."""
    worse = new > old if better is Better.LOWER else new < old
    return Direction.REGRESSION if worse else Direction.IMPROVEMENT


def low_quantile(values: list[float], better: Better) -> float:
    """The quick end of a few processes' values: the second best of five or more, the best of fewer.

    A process is now and then slow for its whole life and never quick for no reason, so the quick end is
    what the program can do; the very best of many would be an extreme.
    """
    ordered = sorted(values, reverse=better is Better.HIGHER)
    return ordered[1] if len(ordered) >= 5 else ordered[0]


def format_value(value: float, unit: str) -> str:
    """A value with its unit for people: `0.0021 s` as `2.1 ms`."""
    for scale, name in _SCALES.get(unit, ()):
        if abs(value) >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value:.4g} {unit}".strip()


def format_change(*, old: float, new: float) -> str:
    """`-7.0 %` for small changes of the value itself, `x 294` or `x 0.004` for large ones; counts may be 0."""
    if not old or not new:
        return "from 0" if new else "to 0" if old else "+0.0 %"
    ratio = new / old
    if abs(math.log(ratio)) > math.log(2):
        return f"x {ratio:.3g}"
    percent = round(100 * (ratio - 1), 1) or 0.0  # no "-0.0"
    return f"{percent:+.1f} %"
