"""How many bytes does XLA plan for a program, beside what goes in and comes out, and at most at once?

They are the same in each call, each process and each run of one version. The programs are those of other modules.
"""

from __future__ import annotations

import abc
from typing import Any

import jax

from benchmarks import control_flow, neural, protocol, reductions
from benchmarks.benchmark import Benchmark, Compared, by_size

SIZES = {"temp_bytes": "temp_size_in_bytes", "peak_bytes": "peak_memory_in_bytes"}


class Memory(Benchmark):
    """The bytes that the program of another benchmark needs."""

    unit = "bytes"
    better = "lower"
    group = "memory"

    @property
    @abc.abstractmethod
    def program(self) -> type[Compared]:
        """The benchmark."""

    def setup(self, *params: Any) -> None:
        """The program, compiled already, to learn whether this version says anything about memory."""
        self.subject = self.program()
        self.subject.setup(*params)
        self.arguments = self.subject.arguments
        self.compile()
        self.analysis = self.compiled.memory_analysis()
        # Some answer with zeros throughout, also for the arguments.
        if not getattr(self.analysis, "argument_size_in_bytes", 0):
            raise NotImplementedError(
                f"jax {jax.__version__} has no memory analysis on {jax.default_backend()}"
            )

    def function(self, *arguments: Any) -> Any:
        """The program's."""
        return self.subject.function(*arguments)

    def check(self, result: Any) -> str | None:
        """The program's."""
        return self.subject.check(result)

    def metrics(self, timing: protocol.Timing, judged: str) -> list[dict[str, Any]]:
        """Bytes, as far as this version knows them; the timing says nothing about them."""
        del timing, judged
        sizes = {metric: getattr(self.analysis, name, None) for metric, name in SIZES.items()}
        return [
            {
                "metric": metric,
                "unit": "bytes",
                "better": "lower",
                "judged": True,
                "exact": True,
                "blocks": [float(size)],
            }
            for metric, size in sizes.items()
            if size
        ]

    def track_bytes(self, *_params: Any) -> dict[str, Any]:
        """What asv runs: bytes."""
        return self.headline()


class Transformer(Memory):
    """A transformer block, forward and differentiated."""

    version = "1"
    program = neural.Transformer
    param_names = neural.Transformer.param_names
    params = neural.Transformer.params


class ScanGradient(Memory):
    """The gradient through a scan, which keeps something of each step."""

    version = "1"
    program = control_flow.ScanGradient
    param_names = control_flow.ScanGradient.param_names
    params = control_flow.ScanGradient.params


class SquaredDifferences(Memory):
    """The sum of squares of jnp.diff along three axes."""

    version = "1"
    program = reductions.SquaredDifferences
    param_names = ("edge",)
    params = (by_size(smoke=(64,), full=(512,)),)
