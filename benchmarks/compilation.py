"""What does it cost to trace a program, to lower it, and to let XLA compile it?

Three metrics: `compile_time` (XLA), `trace_time` (Python to jaxpr) and `lower_time` (jaxpr to StableHLO), all on the
judged clock. Three shapes of program: few operations unrolled many times, many results that share nothing, and what a
differentiated network is made of.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import neural, protocol
from benchmarks.benchmark import Timed, by_size, random_numbers

PHASES = ("trace_time", "lower_time", "compile_time")


class Compilation(Timed):
    """A benchmark of tracing, lowering and compiling.

    Each call forgets everything that JAX has traced and compiled, does the three afresh, and runs the program once
    for its result. Only the three are in the metrics: of the protocol's blocks it is which calls were kept that counts.
    """

    group = "compile"

    def setup(self, *params: Any) -> None:
        """The inputs on the device, and no call yet."""
        super().setup(*params)
        self.calls: list[tuple[protocol.Instant, ...]] = []

    def call(self) -> Any:
        """Trace, lower and compile once more; the program's result."""
        jax.clear_caches()
        jitted = jax.jit(self.function)
        instants = [protocol.read_clocks()]
        # The way to trace that all versions share; the lowering finds what was traced here.
        jax.make_jaxpr(jitted)(*self.arguments)
        instants.append(protocol.read_clocks())
        self.lowered = jitted.lower(*self.arguments)
        instants.append(protocol.read_clocks())
        self.compiled = self.lowered.compile()
        instants.append(protocol.read_clocks())
        self.calls.append(tuple(end.since(start) for start, end in zip(instants, instants[1:])))  # noqa: B905, RUF007 - 3.9
        return super().call()

    def metrics(self, timing: protocol.Timing, judged: str) -> list[dict[str, Any]]:
        """Seconds of each phase on the judged clock, the longest one first, and beside it on the wall's."""
        number = timing.number
        kept = self.calls[-number * len(timing.wall_time) :]
        blocks = [kept[start : start + number] for start in range(0, len(kept), number)]

        def seconds(phase: int, clock: str) -> list[float]:
            return [sum(getattr(call[phase], clock) for call in block) / number for block in blocks]

        return [
            {
                "metric": PHASES[phase] + suffix,
                "unit": "s",
                "better": "lower",
                "judged": not suffix,
                "blocks": seconds(phase, clock),
            }
            for suffix, clock in (("", judged), ("_wall", "wall_time"))
            for phase in (2, 0, 1)
        ]


class Unrolled(Compilation):
    """`tanh(x @ x) * 0.5` on 16 x 16, again and again: 120 of them are what full compiles.

    On CPU jaxlib 0.5.3 took about 20 times as long for it as 0.4.20 did, later ones about 5 times.
    """

    version = "1"
    param_names = ("layers",)
    params = (by_size(smoke=(8,), full=(120,)),)
    tolerance = 4e-3

    def inputs(self, layers: int) -> tuple[Any, ...]:
        """A matrix."""
        self.layers = layers
        return (random_numbers().random((16, 16), dtype=np.float32),)

    def function(self, matrix: Any) -> Any:
        """The last product."""
        return self.unroll(jnp, matrix)

    def reference(self, matrix: Any) -> Any:
        """The last product."""
        return self.unroll(np, matrix)

    def unroll(self, xp: Any, matrix: Any) -> Any:
        """The last product; `xp` is jax.numpy or numpy."""
        for _ in range(self.layers):
            matrix = xp.tanh(matrix @ matrix) * 0.5
        return matrix


class Wide(Compilation):
    """Many results, each of some operations of its own, that share nothing but their input."""

    version = "1"
    param_names = ("results",)
    params = (by_size(smoke=(16,), full=(256,)),)

    def inputs(self, results: int) -> tuple[Any, ...]:
        """Numbers in [0, 1)."""
        self.results = results
        return (random_numbers().random((64, 64), dtype=np.float32),)

    def function(self, numbers: Any) -> Any:
        """All the results."""
        return self.widen(jnp, numbers)

    def reference(self, numbers: Any) -> Any:
        """All the results."""
        return self.widen(np, numbers)

    def widen(self, xp: Any, numbers: Any) -> Any:
        """Sums along one axis or the other, each of a function of its own; `xp` is jax.numpy or numpy."""
        return tuple(xp.sum(xp.exp(-numbers * (1 + each)), axis=each % 2) for each in range(self.results))


class TransformerGradient(Compilation, neural.Transformer):
    """The gradients of a transformer block."""

    version = "1"
    param_names = ("length", "pass")
    params = (by_size(smoke=(32,), full=(2048,)), ("gradient",))
