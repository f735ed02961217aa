"""Which numbers does detection decide by?

14 and 9 belong together: one odd night costs at most 9, less than a step's 14, so it never makes a step; a dip of
three nights costs at most 27, less than two steps' 28, so it never makes a pair of them; and two nights at a new
level cost up to 18, more than 14, so that a clear step is seen at its second night.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DetectionSettings:
    """How far apart two levels must be, and how sure we must be of it.

    `min_effect` is a log ratio (0.003 is 0.3 %), `min_z` a step's size in standard errors, `min_line_z` the same
    beside a straight line; `penalty` and `bound` are in squared noise units, `noise_floor` is a relative noise below
    which nothing is believed. `hysteresis` scales the three minima where a step was alerted.
    A level is back when what remains is at most `back_share` of the step; back within `dip_nights` makes it a dip.
    """

    min_effect: float = 0.003
    min_z: float = 6.5
    min_line_z: float = 3.0
    penalty: float = 14.0
    bound: float = 9.0
    noise_floor: float = 0.0002
    hysteresis: float = 0.6
    dip_nights: int = 3
    back_share: float = 0.25
