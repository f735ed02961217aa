"""How many million lattice sites does a fluid simulation update in a second?

A cube with a moving lid, D3Q19, BGK, float32, Reynolds number 100: the workload of XLB's MLUPS3d. Five walls stand
still, the sixth (the last in z) moves along x; all six bounce populations back half way between two sites, the lid
gives them its momentum on the way:

    f_i(x, t+1) = f*_i(x - c_i, t)                            where the site x - c_i exists
                = f*_opposite(i)(x, t) + 6 w_i (c_i . u_lid)  where it lies beyond a wall (u_lid: beyond the lid)

The lid's share cancels over the directions that leave it, so the mass in the box stays what it was, to rounding.
The same lines are run by numpy for the check. Source: Krueger et al., The Lattice Boltzmann Method (2017), 3.4, 5.3.3.

A call is `steps` steps: one compiled program each, called in a row with the state donated, waited for once.
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


class Cavity(Benchmark):
    """A lid-driven cavity of `edge` cubed sites, `steps` steps a call."""

    version = "1"
    unit = "MLUPS"
    better = "higher"
    group = "core"
    param_names = ("edge", "steps")
    params = (by_size(smoke=(32,), full=(256,)), by_size(smoke=(10,), full=(50,)))
    donate = (0,)

    def setup(self, edge: int, steps: int) -> None:
        """A fluid at rest; small boxes also get numpy's own answer after the first call."""
        viscosity = LID_SPEED * (edge - 1) / REYNOLDS
        self.omega = 1 / (3 * viscosity + 0.5)
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
        (populations,) = self.arguments
        for _ in range(self.steps):
            populations = self.compiled(populations)
        self.arguments = (populations,)
        return jax.block_until_ready(populations)

    def check(self, result: Any) -> str | None:
        """Finite, no mass lost or made; and as numpy has it after the first call."""
        expected, self.expected = self.expected, None
        populations = np.asarray(result)
        mass = float(populations.sum(dtype=np.float64))
        if not np.isfinite(mass):
            return "not finite"
        if abs(mass / self.sites - 1) > 1e-3:
            return f"the mass is {mass / self.sites:.6g} of what it was"
        return None if expected is None else difference(populations, expected, tolerance=1e-4)

    def metrics(self, timing: protocol.Timing, judged: str) -> list[dict[str, Any]]:
        """Million lattice updates a second."""
        return protocol.rate_metrics("mlups", "MLUPS", self.sites * self.steps / 1e6, timing, judged)

    def track_mlups(self, *_params: Any) -> dict[str, Any]:
        """What asv runs: million lattice updates a second."""
        return self.headline()


def advance(xp: Any, populations: Any, omega: float) -> Any:
    """One step of collision, streaming and walls; `xp` is jax.numpy or numpy; shape (19, edge, edge, edge)."""
    collided = _collide(xp, populations, omega)
    arriving = xp.stack([_shift(xp, one, velocity) for one, velocity in zip(collided, VELOCITIES)])  # noqa: B905 - 3.9
    beyond_wall, beyond_lid = _walls(xp, populations.shape[1])
    push = (6 * LID_SPEED * WEIGHTS * VELOCITIES[:, 0]).reshape(-1, 1, 1, 1)
    bounced = collided[::-1] + xp.where(beyond_lid, push, np.float32(0))
    return xp.where(beyond_wall, bounced, arriving)


def _collide(xp: Any, populations: Any, omega: float) -> Any:
    """The populations, relaxed towards their equilibrium."""
    # Products in full precision also on a GPU; numpy knows no other.
    precision = {"precision": jax.lax.Precision.HIGHEST} if xp is jnp else {}
    density = populations.sum(axis=0)
    velocity = xp.tensordot(VELOCITIES.T, populations, 1, **precision) / density
    along = xp.tensordot(VELOCITIES, velocity, 1, **precision)
    at_rest = 1 - 1.5 * (velocity * velocity).sum(axis=0)
    equilibrium = WEIGHTS.reshape(-1, 1, 1, 1) * density * (at_rest + along * (3 + 4.5 * along))
    return populations + omega * (equilibrium - populations)


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
