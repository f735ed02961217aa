"""Where do other detectors see the steps of a series? One function each, and a program that runs one on many series.

The program reads {"detector", "series", "noise", "start"} from its input: with `start` every prefix from that length
on is answered for, else only the whole series; `noise` is a known relative noise of each series or null. It is
run by bench_detect.py, in the environment of requirements-peers.lock for all but asv.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Positions = list[int]


def asv(values: list[float], _noise: float | None) -> Positions:
    """`asv.step_detect` as asv calls it, each night weighing the same."""
    from asv.step_detect import detect_steps

    return [int(step[0]) for step in detect_steps(values, [1.0] * len(values))][1:]


def otava(values: list[float], _noise: float | None, *, magnitude: float = 0.0) -> Positions:
    """Apache Otava as its own `Series.analyze` calls it; `magnitude` is the least relative change."""
    from otava.analysis import compute_change_points

    points, _ = compute_change_points(values, window_len=50, max_pvalue=0.001, min_magnitude=magnitude)
    return [int(point.index) for point in points]


def otava_one_percent(values: list[float], noise: float | None) -> Positions:
    """The same without changes below 1 %."""
    return otava(values, noise, magnitude=0.01)


def kernel(values: list[float], _noise: float | None) -> Positions:
    """Ruptures' KernelCPD on the logarithms with its own kernel width and a penalty of ln n."""
    return _kernel(np.log(values), math.log(len(values)), {})


def kernel_tuned(values: list[float], noise: float | None) -> Positions:
    """The same with the width and the penalty that do best on what ours was tuned on."""
    return _kernel_in_noises(values, noise, gamma=0.04)


def kernel_swept(values: list[float], noise: float | None) -> Positions:
    """The same with those that do best on everything, what is reported here included: an upper bound."""
    return _kernel_in_noises(values, noise, gamma=0.02)


def _kernel_in_noises(values: list[float], noise: float | None, *, gamma: float) -> Positions:
    logs = np.log(values)
    guess = 1.4826 / math.sqrt(2) * float(np.median(np.abs(np.diff(logs)))) if len(values) > 1 else 0.0
    return _kernel(logs / (noise or max(guess, 1e-6)), 0.7 * math.log(len(values)), {"gamma": gamma})


def _kernel(values: Any, penalty: float, params: dict[str, float]) -> Positions:
    import ruptures

    if len(values) < 4:
        return []
    found = ruptures.KernelCPD(kernel="rbf", min_size=2, params=params).fit(values[:, None])
    return [int(place) for place in found.predict(pen=penalty)[:-1]]


DETECTORS: dict[str, Callable[[list[float], float | None], Positions]] = {
    "asv.step_detect": asv,
    "Otava": otava,
    "Otava, 1 %": otava_one_percent,
    "KernelCPD": kernel,
    "KernelCPD, tuned": kernel_tuned,
    "KernelCPD, swept": kernel_swept,
}


def run(job: dict[str, Any]) -> dict[str, Any]:
    """The answers, one for each series (with `start`: one for each of its prefixes), and the CPU seconds taken."""
    warnings.simplefilter("ignore")
    detector = DETECTORS[job["detector"]]
    noises = job["noise"] or [None] * len(job["series"])
    detector(job["series"][0][:20], None)  # what is imported is not counted
    begun = time.process_time()
    answers: list[Any] = []
    for values, noise in zip(job["series"], noises, strict=True):
        if job["start"] is None:
            answers.append(detector(values, noise))
        else:
            answers.append([detector(values[:n], noise) for n in range(job["start"], len(values) + 1)])
    return {"answers": answers, "seconds": time.process_time() - begun}


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
