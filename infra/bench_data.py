"""What is detection measured on: windows of real histories with labels, and made series of which the truth is known.

Both lie outside of the repository, in ../shared. What was tuned on is left out here: the even-numbered windows, and
whoever calls `synthetic` takes seeds from 20 on.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from stepwatch.core.labels import Labelled, read_labels

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


def is_here() -> bool:
    """Whether the data is where it is looked for."""
    return (SHARED / "detection_bench").is_dir() and (SHARED / "data").is_dir()


def generator() -> ModuleType:
    """The module that makes series."""
    name = "synth"
    spec = importlib.util.spec_from_file_location(name, SHARED / "detection_bench" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def real() -> list[Labelled]:
    """The windows that nothing was tuned on."""
    return read_labels((SHARED / "data" / "steps_labelled.json").read_text(encoding="utf-8"))[1::2]


def synthetic(synth: ModuleType, kind: str, seed: int) -> Labelled:
    """One made series without its gaps; its kind is its key."""
    made = synth.gen(kind, seed)
    values, truth, _ = synth.compact(made)
    return Labelled(key=kind, values=values.tolist(), truth=truth, noise=_floor(kind, made["noise"]))


def _floor(kind: str, noise: Any) -> float:
    """The size of the noise that was put in: the standard deviation, of heavy tails by the median."""
    nights = np.arange(noise.size)
    if kind == "drift":
        noise = noise - np.polyval(np.polyfit(nights, noise, 1), nights)
    if kind == "heavy":
        return float(1.4826 * np.median(np.abs(noise - np.median(noise))))
    return float(np.std(noise))


def unknown(series: Labelled) -> Labelled:
    """The same, its noise being nobody's knowledge."""
    return replace(series, noise=None)
