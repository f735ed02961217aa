"""What does the whole loop say, night by night: detection, re-measurement at once, a control?

Both are simulated: what is measured again is the true level of the night's program, without the trouble that the night itself may
have had (a dip), times noise drawn anew for each process; what the control measures is that noise alone.
"""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from bench_data import generator, synthetic

from stepwatch.core.bisection.compare import compare
from stepwatch.core.labels import Labelled
from stepwatch.core.model import Better, Evidence, Point, Regression, SuspectRange
from stepwatch.core.recheck import EFFECT_MAX, control_noise, effect_sought
from stepwatch.core.sayings import Telling
from stepwatch.core.scores import Night
from stepwatch.core.triage import Triage, triage
from stepwatch.jobs.confirm import CAP, CAP_SMALL

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
WEEK = 7
LEVEL = 587.0


def play_all(
    kinds: list[str], seeds: range, *, controls: int | None
) -> tuple[list[Labelled], list[Night], int]:
    """The series, what the loop said of each, and how many re-measurements it asked for.

    `controls`: so many runs of the control were there before the first night, and one a week is added; None: the noise is known.
    """
    jobs = [(kind, seed, controls) for kind in kinds for seed in seeds]
    with ProcessPoolExecutor(2) as pool:
        played = list(pool.map(_play, jobs, chunksize=10))
    return (
        [one for one, _, _ in played],
        [night for _, night, _ in played],
        sum(asked for _, _, asked in played),
    )


@dataclass(kw_only=True)
class _World:
    """The truth behind a series, and what the loop has come to know of it."""

    values: list[float]
    levels: Any  # log, of the program alone
    noise: Any
    random: np.random.Generator
    evidence: list[Evidence] = field(default_factory=list)
    controls: list[tuple[str, float]] = field(default_factory=list)

    def again(self, night: int, count: int) -> tuple[float, ...]:
        drawn = self.random.choice(self.noise - np.median(self.noise), count)
        return tuple((LEVEL * np.exp(self.levels[night] + drawn)).tolist())

    def measure_again(self, suspect: SuspectRange) -> None:
        after, through = int(suspect.after), int(suspect.through)
        sought = effect_sought(self.values[after], self.values[through])
        cap = CAP if sought >= EFFECT_MAX else CAP_SMALL
        old, new = self.again(after, cap), self.again(through, cap)
        said = compare(old, new, cap=cap, min_effect=sought, give_up=True)
        self.evidence.append(
            Evidence(
                suspect=suspect, verdict=said.verdict, ratio=said.ratio, old=old, new=new, reason=said.reason
            )
        )

    def measure_control(self, night: int) -> None:
        drawn = float(self.random.choice(self.noise - np.median(self.noise)))
        self.controls.append((str(night), LEVEL * float(np.exp(drawn))))


def _play(job: tuple[str, int, int | None]) -> tuple[Labelled, Night, int]:
    kind, seed, controls = job
    synth = generator()
    made = synth.gen(kind, seed)
    series = synthetic(synth, kind, seed)
    levels = made["clean"].copy()
    for start, length in made["blips"]:
        levels[start : start + length] = levels[start - 1]
    world = _World(
        values=list(series.values),
        levels=levels[synth.compact(made)[2]],
        noise=np.asarray(made["noise"]),
        random=np.random.default_rng([seed, 99]),
    )
    for _ in range(controls or 0):
        world.measure_control(0)
    points = [
        Point(label=str(i), at=START + dt.timedelta(days=i), value=value)
        for i, value in enumerate(series.values)
    ]
    known: tuple[Regression, ...] = ()
    alerts: set[tuple[int, int]] = set()
    flips = asked = 0
    for night in range(len(points)):
        if controls is not None and night % WEEK == 0:
            world.measure_control(night)
        while True:
            noise = series.noise if controls is None else control_noise(world.controls)
            tonight = triage(
                points[: night + 1],
                known=known,
                evidence=world.evidence,
                controls=world.controls,
                better=Better.LOWER,
                noise=noise,
            )
            known = tonight.regressions
            flips += sum(saying.kind is Telling.RETRACTED for saying in tonight.said)
            alerts |= _alerts(tonight, night)
            if tonight.suspect is None:
                break
            asked += 1
            world.measure_again(tonight.suspect)
    return series, Night(alerts=sorted(alerts), flips=flips), asked


def _alerts(tonight: Triage, night: int) -> set[tuple[int, int]]:
    return {(int(saying.suspect.through), night) for saying in tonight.said if saying.suspect is not None}
