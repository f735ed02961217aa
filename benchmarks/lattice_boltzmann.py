"""How many million lattice sites does a fluid simulation update in a second?

A cube with a moving lid, D3Q19, BGK, float32, Reynolds number 100: the workload of XLB's MLUPS3d. Five walls stand
still, the sixth (the last in z) moves along x; all six bounce populations back half way between two sites, the lid
gives them its momentum on the way:

    f_i(x, t+1) = f*_i(x - c_i, t)                            where the site x - c_i exists
                = f*_opposite(i)(x, t) + 6 w_i (c_i . u_lid)  where it lies beyond a wall (u_lid: beyond the lid)

The lid's share cancels over the directions that leave it, so the mass in the box stays what it was, to rounding.
The same lines are run by numpy for the check. Source: Krueger et al., The Lattice Boltzmann Method (2017), 3.4, 5.3.3.

A call is `steps` steps: one compiled program each, called in a row with the state donated, waited for once. MLUPS is
sites x steps of a call / its seconds / 1e6.

An update moves `BYTES` at least: 19 float32 read and 19 written. `bandwidth_share` is what that comes to, as a share
of the bytes that a plain copy moves in the same process by the same protocol (both count what is read and what is
written). A program that keeps its populations in a cache, or computes more than it moves, is far from 1 or above it.
The real package runs the same workload in benchmarks/xlb_package.py, as a series of its own.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import protocol
from benchmarks.benchmark import Benchmark, by_size, difference

REYNOLDS = 100
LID_SPEED = 0.1
# In this order a direction's opposite is as far from the end as it is from the start: `[::-1]` turns all around.
VELOCITIES = np.array(
    [(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1) if abs(x * y * z) == 0],
    dtype=np.float32,
)
WEIGHTS = np.array([1 / 3, 1 / 18, 1 / 36], dtype=np.float32)[np.abs(VELOCITIES).sum(axis=1).astype(int)]
BYTES = 2 * len(WEIGHTS) * 4
# 128 MiB an array: a copy is meant to reach the memory, however small the box is.
COPIED_VALUES_MIN = 2**25
COPIES = 4


class Cavity(Benchmark):
    """A lid-driven cavity of `edge` cubed sites, `steps` steps a call."""

    version = "1"
    unit = "MLUPS"
    better = "higher"
    group = "core"
    param_names = ("edge", "steps")
    params = (by_size(smoke=(32,), full=(256,)), by_size(smoke=(10,), full=(200,)))
    donate = (0,)
    mass_tolerance = 1e-3

    def setup(self, edge: int, steps: int) -> None:
        """A fluid at rest; small boxes also get numpy's own answer after the first call."""
        self.omega = 1 / (3 * viscosity(edge) + 0.5)
        self.steps = steps
        self.sites = edge**3
        rest = np.broadcast_to(WEIGHTS.reshape(-1, 1, 1, 1), (len(WEIGHTS), edge, edge, edge))
        self.expected = rest if edge <= 32 else None
        for _ in range(steps if self.expected is not None else 0):
            self.expected = advance(np, self.expected, self.omega)
        self.arguments = (jax.device_put(rest),)

    def function(self, populations: Any) -> Any:
        """One step."""
        return advance(jnp, populations, self.omega)

    def call(self) -> Any:
        """`steps` steps on from where the last call ended."""
        populations, *others = self.arguments
        for _ in range(self.steps):
            populations = self.compiled(populations, *others)
        self.arguments = (populations, *others)
        return jax.block_until_ready(populations)

    def check(self, result: Any) -> str | None:
        """Finite, no mass lost or made; and as numpy has it after the first call."""
        expected, self.expected = self.expected, None
        populations = np.asarray(result)
        mass = float(populations.sum(dtype=np.float64))
        if not np.isfinite(mass):
            return "not finite"
        if abs(mass / self.sites - 1) > self.mass_tolerance:
            return f"the mass is {mass / self.sites:.6g} of what it was"
        return None if expected is None else difference(populations, expected, tolerance=1e-4)

    def metrics(self, timing: protocol.Timing, judged: str) -> list[dict[str, Any]]:
        """Million lattice updates a second, and the share of a copy's bandwidth that they need."""
        rates = protocol.rate_metrics("mlups", "MLUPS", self.sites * self.steps / 1e6, timing, judged)
        if self.brief:
            return rates
        copied = copy_bandwidth(len(WEIGHTS) * self.sites, judged)
        share = {
            "metric": "bandwidth_share",
            "unit": "1",
            "better": "higher",
            "judged": False,
            "blocks": [mlups * 1e6 * BYTES / copied for mlups in rates[0]["blocks"]],
        }
        return [*rates, share]

    def facts(self) -> tuple[dict[str, float], dict[str, str]]:
        """What any program tells, and the bytes that an update moves at least."""
        counts, hashes = super().facts()
        return {**counts, "bytes_per_update": BYTES}, hashes

    def track_mlups(self, *_params: Any) -> dict[str, Any]:
        """What asv runs: million lattice updates a second."""
        return self.headline()


def viscosity(edge: int) -> float:
    """In lattice units, so that a box of this edge has the Reynolds number."""
    return LID_SPEED * (edge - 1) / REYNOLDS


def copy_bandwidth(values: int, judged: str) -> float:
    """Bytes a second that a copy of float32 reads and writes at its best, on the judged clock.

    As in STREAM, the target's memory is there before: it is donated, so that nothing is allocated in a timed block.
    """
    shape = (max(values, COPIED_VALUES_MIN),)
    source, target = (jax.device_put(np.full(shape, value, dtype=np.float32)) for value in (1, 2))
    # An addition costs nothing beside the memory, and no compiler takes it for an alias.
    program = jax.jit(lambda source, _target: source + 1, donate_argnums=(1,), keep_unused=True)
    compiled = program.lower(source, target).compile()
    targets = [target]
    del target

    def call() -> Any:
        for _ in range(COPIES):
            targets.append(compiled(source, targets.pop()))
        return jax.block_until_ready(targets[0])

    timing, _ = protocol.run_blocks(call, budget=protocol.BUDGETS[protocol.read_size()], judged=judged)
    return float(2 * source.nbytes * COPIES / min(getattr(timing, judged)))


def advance(xp: Any, populations: Any, omega: float) -> Any:
    """One step of collision, streaming and walls; `xp` is jax.numpy or numpy; shape (19, edge, edge, edge)."""
    collided = collide(xp, populations, omega)
    arriving = xp.stack([_shift(xp, one, velocity) for one, velocity in zip(collided, VELOCITIES)])  # noqa: B905 - 3.9
    beyond_wall, beyond_lid = _walls(xp, populations.shape[1])
    push = (6 * LID_SPEED * WEIGHTS * VELOCITIES[:, 0]).reshape(-1, 1, 1, 1)
    bounced = collided[::-1] + xp.where(beyond_lid, push, np.float32(0))
    return xp.where(beyond_wall, bounced, arriving)


def collide(xp: Any, populations: Any, omega: float) -> Any:
    """The populations, relaxed towards their equilibrium."""
    density = populations.sum(axis=0)
    velocity = xp.tensordot(VELOCITIES.T, populations, 1, **_precision(xp)) / density
    return populations + omega * (equilibrium(xp, density, velocity) - populations)


def equilibrium(xp: Any, density: Any, velocity: Any) -> Any:
    """The populations of a fluid at equilibrium; shapes (x, y, z) and (3, x, y, z) to (19, x, y, z)."""
    along = xp.tensordot(VELOCITIES, velocity, 1, **_precision(xp))
    at_rest = 1 - 1.5 * (velocity * velocity).sum(axis=0)
    return WEIGHTS.reshape(-1, 1, 1, 1) * density * (at_rest + along * (3 + 4.5 * along))


def _precision(xp: Any) -> dict[str, Any]:
    """Products in full precision also on a GPU; numpy knows no other."""
    return {"precision": jax.lax.Precision.HIGHEST} if xp is jnp else {}


def _shift(xp: Any, population: Any, velocity: Any) -> Any:
    """One population moved by one site along each axis that its velocity has; zero where nothing arrives."""
    if not velocity.any():
        return population
    steps = [int(step) for step in velocity]
    padded = xp.pad(population, [(max(step, 0), max(-step, 0)) for step in steps])
    return padded[
        tuple(slice(max(-step, 0), padded.shape[axis] - max(step, 0)) for axis, step in enumerate(steps))
    ]


def _walls(xp: Any, edge: int) -> tuple[Any, Any]:
    """Where a direction's upstream site lies beyond any wall, and where beyond the lid."""
    beyond, last = False, False
    for axis in range(3):
        position = xp.arange(edge).reshape([edge if axis == other else 1 for other in (-1, 0, 1, 2)])
        step = VELOCITIES[:, axis].reshape(-1, 1, 1, 1)
        last = (step < 0) & (position == edge - 1)
        beyond = beyond | last | ((step > 0) & (position == 0))
    return beyond, last
