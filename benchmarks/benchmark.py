"""What is a benchmark made of?

A benchmark is an asv class: `setup(*params)` makes the inputs with numpy (never with jax.random, whose values and
costs change between versions), `function` is what gets compiled, `check` says what is wrong with its result. The base
classes bring the one `track_*` method that asv finds; they are abstract, so that asv does not take them for benchmarks.

A name is `<module>.<Class>.track_time`, or `track_<rate>` where work a second is the point.
"""

from __future__ import annotations

import abc
import hashlib
import re
from contextlib import suppress
from typing import Any

import jax
import numpy as np

from benchmarks import protocol

SEED = 20230824


class Benchmark(abc.ABC):
    """One program under several parameters.

    A subclass sets `version`, `unit`, `better`, `group`, `param_names` and `params` itself: they make a series, so
    none has a default here. `setup` sets `arguments` (on the device); `donate` lists those that a call uses up.
    """

    version: str
    unit: str
    better: str
    group: str
    param_names: tuple[str, ...]
    params: tuple[tuple[Any, ...], ...]
    timeout = 600.0
    donate: tuple[int, ...] = ()

    arguments: tuple[Any, ...]
    lowered: Any
    compiled: Any

    @abc.abstractmethod
    def setup(self, *args: Any, **kwargs: Any) -> None:
        """Make the inputs for these parameters; NotImplementedError where they make no sense here."""

    @abc.abstractmethod
    def function(self, *args: Any, **kwargs: Any) -> Any:
        """What is compiled and timed, from device arrays to device arrays."""

    @abc.abstractmethod
    def check(self, result: Any) -> str | None:
        """What is wrong with a result, in one line; None where it is right."""

    @abc.abstractmethod
    def metrics(self, timing: protocol.Timing, judged: str) -> list[dict[str, Any]]:
        """The document's metrics of a timing."""

    def compile(self) -> None:
        """Trace, lower and compile ahead of time, so that nothing compiles in a timed block."""
        self.lowered = jax.jit(self.function, donate_argnums=self.donate).lower(*self.arguments)
        self.compiled = self.lowered.compile()

    def call(self) -> Any:
        """One call, which ends when its result is there."""
        return jax.block_until_ready(self.compiled(*self.arguments))

    def facts(self) -> tuple[dict[str, float], dict[str, str]]:
        """Operation counts and hashes of the program before and after XLA's optimisation."""
        counts: dict[str, float] = {}
        hashes: dict[str, str] = {}
        # Each version knows some of these and refuses others in its own way.
        refusals = (AttributeError, NotImplementedError, TypeError, KeyError, RuntimeError)
        with suppress(*refusals):
            text = self.lowered.as_text()
            counts["stablehlo_ops"] = len(re.findall(r"= \"?stablehlo\.", text))
            hashes["stablehlo"] = _hash(text)
        with suppress(*refusals):
            text = without_locations(self.compiled.as_text())
            counts["hlo_ops"] = len(re.findall(r"^ +(?:ROOT )?%?[\w.-]+ = ", text, re.MULTILINE))
            hashes["hlo"] = _hash(text)
        with suppress(*refusals):
            costs = self.compiled.cost_analysis()
            counts["flops"] = float((costs[0] if isinstance(costs, list) else costs)["flops"])
        return counts, hashes

    def headline(self) -> dict[str, Any]:
        """The judged metric for asv, which has called `setup` already."""
        budget = protocol.BUDGETS[protocol.read_size()]
        judged = protocol.judged_clock(jax.devices()[0].platform)
        return protocol.headline(protocol.observe(self, budget=budget, judged=judged))


class Timed(Benchmark):
    """A benchmark whose metric is the time of a call."""

    def metrics(self, timing: protocol.Timing, judged: str) -> list[dict[str, Any]]:
        """Seconds a call on both clocks."""
        return protocol.duration_metrics(timing, judged)

    def track_time(self, *_params: Any) -> dict[str, Any]:
        """What asv runs: seconds a call."""
        return self.headline()


def by_size(*, smoke: tuple[Any, ...], full: tuple[Any, ...]) -> tuple[Any, ...]:
    """A parameter's values in the size that the environment asks for."""
    return smoke if protocol.read_size() == "smoke" else full


def random_numbers() -> np.random.Generator:
    """The generator of all inputs, the same in every process."""
    return np.random.default_rng(SEED)


def difference(actual: Any, expected: Any, *, tolerance: float) -> str | None:
    """What sets `actual` apart from `expected`; None where all differ by less than `tolerance` x the largest."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape:
        return f"the shape is {actual.shape}, expected {expected.shape}"
    odd = int(np.size(actual) - np.count_nonzero(np.isfinite(actual)))
    if odd:
        return f"not finite: {odd} of {np.size(actual)} values"
    error = float(np.max(np.abs(actual - expected)))
    allowed = tolerance * float(np.max(np.abs(expected)))
    if error > allowed:
        return f"off by up to {error:.3g}, allowed {allowed:.3g}"
    return None


def without_locations(text: str) -> str:
    """Optimised HLO without what says where in the sources it came from, which differs between checkouts."""
    text = re.sub(r",? metadata=\{(?:[^{}\"]|\"[^\"]*\"|\{[^{}]*\})*\}", "", text)
    tables = r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d.*\n)*"
    return re.sub(tables, "", text, flags=re.MULTILINE)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
