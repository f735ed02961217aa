"""Where do people say that the steps of a series are?

A file of labels is one JSON object:

    {"series": [{"key": "pybamm-024", "y": [0.25, 0.30, null, 0.21], "steps": [3], "ambiguous": [], "noise": 0.01}]}

`y` are the values in the order of time, null a night without one. `steps` are the positions in `y` of the first value
of each new level, `ambiguous` those that may or may not be one. `noise` is the relative noise, where it is known.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stepwatch.core.detection.detect import LARGEST


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Values without gaps, the first positions of their true levels, and those that may or may not be one.

    `wrong` are the only positions at which an answer is false, where nobody has looked the whole series through; else
    it is None, and an answer anywhere else than at a true level is false.
    """

    key: str
    values: Sequence[float]
    truth: Sequence[int]
    maybe: Sequence[int] = ()
    wrong: Sequence[int] | None = None
    noise: float | None = None


def read_labels(text: str) -> list[Labelled]:
    """The series of a file of labels.

    ValueError: one sentence that names the series, what is wrong and what is accepted.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    series = document.get("series") if isinstance(document, dict) else None
    if not isinstance(series, list) or not series:
        raise ValueError('it has no series; accepted is {"series": [{"key": …, "y": […], "steps": […]}]}')
    return [_labelled(entry, number) for number, entry in enumerate(series)]


def _labelled(entry: Any, number: int) -> Labelled:
    key = entry.get("key") if isinstance(entry, dict) else None
    if not isinstance(key, str):
        raise ValueError(f"series {number} has no key; accepted is a name")  # noqa: TRY004 - bad input, not a bad call
    values = entry.get("y")
    if not isinstance(values, list) or not all(value is None or _is_positive(value) for value in values):
        raise ValueError(
            f"series {key!r}: y is not accepted; accepted is a list of positive numbers and null"
        )
    kept = [float(value) for value in values if value is not None]
    if not kept:
        raise ValueError(f"series {key!r}: y has no values; accepted is one or more")
    noise = entry.get("noise")
    if noise is not None and not (_is_positive(noise) and noise < 1):
        raise ValueError(f"series {key!r}: noise {noise!r} is not accepted; accepted is a number from 0 to 1")
    # positions among the values that are there: a step at a gap is at the next of them
    present = list(itertools.accumulate((value is not None for value in values), initial=0))
    truth, maybe = (
        [present[place] for place in _places(entry, key, name, len(values))]
        for name in ("steps", "ambiguous")
    )
    truth, maybe = (list(dict.fromkeys(places)) for places in (truth, maybe))
    if max([*truth, *maybe], default=0) >= len(kept):
        raise ValueError(
            f"series {key!r}: a step after the last value is not accepted; accepted is one at a value"
        )
    return Labelled(key=key, values=kept, truth=truth, maybe=maybe, noise=noise)


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 / LARGEST < value < LARGEST


def _places(entry: dict[str, Any], key: str, name: str, count: int) -> list[int]:
    places = entry.get(name, None if name == "steps" else [])
    if not isinstance(places, list) or not all(type(place) is int and 0 < place < count for place in places):
        raise ValueError(
            f"series {key!r}: {name} is not accepted; accepted is a list of positions from 1 to {count - 1}"
        )
    return places
