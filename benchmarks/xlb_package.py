"""How many million lattice sites does the package XLB update in a second?

The workload of XLB's MLUPS3d (`MLUPS3d 256 200`), driven through the package's own stepper with JAX as its backend:
D3Q19, BGK, float32, Reynolds number 100. Its own script is no measurement (it times compiling, and does not wait for
JAX), so the runner is ours: one compiled program a step, the state donated, waited for once a call.

The package and benchmarks/lattice_boltzmann.py are two series. They differ in the order of a step and in the walls:

    ours         collision, then streaming; walls and lid half a site outside the box, so that no mass is lost or made
    the package  streaming, then collision; the outermost sites are the walls: they turn around whatever arrives
                 (full-way bounce-back), and the sites of the lid are set to the equilibrium of density 1 that moves

so a box of the package's of edge N is one of ours of edge N - 2, with the lid half a site farther away; its lid is a
reservoir, and the mass in the box settles a thousandth below what it was (at edge 20). Collision moves neither
density nor momentum, so the order alone changes no velocity. `advance` is the package's step in the port's own words:
after the first call of a small box the package must have what numpy has, to rounding. tests/test_xlb.py compares the
velocities of the two along the centre line.

`version` names the release of the package: another one is another workload, which starts another series. Any other
installed release is skipped, and so is an environment without it.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import lattice_boltzmann
from benchmarks.benchmark import by_size
from benchmarks.lattice_boltzmann import LID_SPEED, VELOCITIES, WEIGHTS

RELEASE = "0.3.1"
LID_VELOCITY = (LID_SPEED, 0.0, 0.0)


class Cavity(lattice_boltzmann.Cavity):
    """The package's lid-driven cavity of `edge` cubed sites, its walls among them, `steps` steps a call."""

    version = "1+xlb0.3.1"
    unit = "MLUPS"
    better = "higher"
    # A process of its own: what the package loads (warp, vtk) stays in the process.
    group = "xlb"
    param_names = ("edge", "steps")
    params = (by_size(smoke=(32,), full=(256,)), by_size(smoke=(10,), full=(200,)))
    mass_tolerance = 5e-3

    def setup(self, edge: int, steps: int) -> None:
        """A fluid at rest; small boxes also get numpy's own answer after the first call."""
        refusal = find_refusal()
        if refusal is not None:
            raise NotImplementedError(refusal)
        omega = 1 / (3 * lattice_boltzmann.viscosity(edge) + 0.5)
        self.steps = steps
        self.sites = edge**3
        self.stepper, *fields = _build(edge)
        # As an argument, which is how the package takes it: a constant makes XLA fuse otherwise (2 x slower on a CPU).
        self.arguments = (*fields, omega)
        self.expected = expect(edge, steps, omega) if edge <= 32 else None

    def function(self, populations: Any, *others: Any) -> Any:
        """One step; the others are which sites are walls, what no site sends, and omega."""
        kind, missing, omega = others
        # The second array is where another backend would write; the time only matters to walls that change.
        return self.stepper(populations, populations, kind, missing, omega, 0)[1]


def find_refusal() -> str | None:
    """Why the package can't be measured here; None where it can."""
    try:
        installed = importlib.metadata.version("xlb")
    except importlib.metadata.PackageNotFoundError:
        return f"xlb is not installed here{_left_out()}"
    if installed != RELEASE:
        return f"xlb {installed} is installed here, where this is a benchmark of {RELEASE}"
    if jax.device_count() > 1:
        return f"xlb spreads its grid over all {jax.device_count()} devices; make one of them visible"
    try:
        import xlb.distribute  # noqa: F401
    except Exception as error:  # noqa: BLE001 - whatever a release of something it needs has moved
        return f"xlb {installed} can't be imported: {type(error).__name__}: {error}"
    return None


def expect(edge: int, steps: int, omega: float) -> Any:
    """Numpy's populations after `steps` steps from rest, in the package's order of directions."""
    populations = np.broadcast_to(WEIGHTS.reshape(-1, 1, 1, 1), (len(WEIGHTS), edge, edge, edge))
    for _ in range(steps):
        populations = advance(populations, omega)
    ours = [tuple(velocity) for velocity in VELOCITIES]
    return populations[[ours.index(tuple(velocity)) for velocity in _directions()]]


def advance(populations: Any, omega: float) -> Any:
    """One step of the package: streaming around the box's ends, the lid, collision, walls."""
    arriving = np.stack(
        [
            np.roll(one, velocity.astype(int), axis=(0, 1, 2))
            for one, velocity in zip(populations, VELOCITIES)  # noqa: B905 - 3.9
        ]
    )
    velocity = np.array(LID_VELOCITY, dtype=np.float32).reshape(3, 1, 1, 1)
    moving = lattice_boltzmann.equilibrium(np, np.ones((1, 1, 1), dtype=np.float32), velocity)
    arriving[:, 1:-1, 1:-1, -1:] = moving
    walls = np.ones(populations.shape[1:], dtype=bool)
    walls[1:-1, 1:-1, 1:] = False
    return np.where(walls, arriving[::-1], lattice_boltzmann.collide(np, arriving, omega))


def _build(edge: int) -> tuple[Any, ...]:
    """The package's stepper, its populations at rest, and the masks of its walls; as its own script puts them up."""
    import xlb
    from xlb.distribute import distribute
    from xlb.grid import grid_factory
    from xlb.operator.boundary_condition import EquilibriumBC, FullwayBounceBackBC
    from xlb.operator.stepper import IncompressibleNavierStokesStepper

    precision, backend = xlb.PrecisionPolicy.FP32FP32, xlb.ComputeBackend.JAX
    velocities = xlb.velocity_set.D3Q19(precision_policy=precision, compute_backend=backend)
    xlb.init(velocity_set=velocities, default_backend=backend, default_precision_policy=precision)
    # The package puts a device in the place of this function of jax's.
    kept = jax.default_device
    try:
        grid = grid_factory((edge, edge, edge))
        faces = grid.bounding_box_indices()
        sides = [faces[name] for name in ("bottom", "left", "right", "front", "back")]
        walls = np.unique(np.concatenate(sides, axis=1), axis=1).tolist()
        lid = grid.bounding_box_indices(remove_edges=True)["top"]
        stepper = IncompressibleNavierStokesStepper(
            grid=grid,
            boundary_conditions=[
                EquilibriumBC(rho=1.0, u=LID_VELOCITY, indices=lid),
                FullwayBounceBackBC(indices=walls),
            ],
        )
        populations, _, kind, missing = stepper.prepare_fields()
    finally:
        jax.default_device = kept
    return distribute(stepper, grid, velocities), populations, kind, missing


def _directions() -> Any:
    """The package's 19 velocities, a row each."""
    import xlb

    return np.asarray(xlb.DefaultConfig.velocity_set.c).T


def _left_out() -> str:
    """What the runner that made this environment wrote down about packages that did not fit in."""
    marker = Path(sys.prefix) / "stepwatch.json"
    said = json.loads(marker.read_text(encoding="utf-8")).get("left_out") if marker.is_file() else None
    return f": {said}" if said else ""
