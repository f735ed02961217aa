"""Does the package XLB compute what our own port computes, and is it skipped with a reason where it can't?

The package needs 1.6 GB, so the tests that run it are skipped unless STEPWATCH_TEST_XLB_PYTHON names the interpreter
of an environment that has it (docs/configuration.md says how to make one).
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from test_benchmarks import install_release

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "benchmarks" / "xlb_package.py"
VARIABLE = "STEPWATCH_TEST_XLB_PYTHON"

WORKER = "from benchmarks import worker; sys.exit(worker.main(sys.argv[1:]))"

# What the package's refusals are made of, put in the place of the real ones, one after the other.
REFUSALS = """
import importlib.metadata, jax, pathlib
from benchmarks import xlb_package

said = {}
said["missing"] = xlb_package.find_refusal()
sys.prefix = sys.argv[1]
said["left out"] = xlb_package.find_refusal()
importlib.metadata.version = lambda name: "0.2.0"
said["another"] = xlb_package.find_refusal()
importlib.metadata.version = lambda name: xlb_package.RELEASE
said["broken"] = xlb_package.find_refusal()
jax.device_count = lambda: 2
said["two devices"] = xlb_package.find_refusal()
print(json.dumps(said))
"""

BANDWIDTH = """
from benchmarks import lattice_boltzmann, protocol

asked = []
def run_blocks(call, *, budget, judged):
    asked.append([budget == protocol.BUDGETS["smoke"], judged, call().tolist() == [2.0] * 7])
    return protocol.Timing(1, cpu_time=[3.0, 0.5], wall_time=[9.0, 4.0]), None
protocol.run_blocks = run_blocks
lattice_boltzmann.COPIED_VALUES_MIN = 7
found = [lattice_boltzmann.copy_bandwidth(5, clock) for clock in protocol.CLOCKS]
print(json.dumps([found, asked]))
"""

# The velocity along the lid at the middle of the box, site by site away from the lid, of both.
PROFILES = """
import jax, numpy as np
from benchmarks import lattice_boltzmann, xlb_package

def centre_line(populations, directions, sites):
    populations, middle = np.asarray(populations, dtype=np.float64), populations.shape[1] // 2
    column = populations[:, middle - 1 : middle + 1, middle - 1 : middle + 1, sites]
    momentum = np.tensordot(np.asarray(directions, dtype=np.float64)[:, 0], column, 1)
    return (momentum / column.sum(axis=0)).mean(axis=(0, 1))[::-1].tolist()

edge, steps = map(int, sys.argv[1:])
package, port = xlb_package.Cavity(), lattice_boltzmann.Cavity()
package.setup(edge, steps)
port.setup(edge - 2, steps)
port.omega = package.arguments[-1]
for cavity in (package, port):
    cavity.compile()
print(json.dumps({
    "omega": port.omega,
    "package": centre_line(package.call(), xlb_package._directions(), slice(1, edge - 1)),
    "port": centre_line(port.call(), lattice_boltzmann.VELOCITIES, slice(None)),
    "functions of jax": callable(jax.default_device),
}))
"""


def run(python: Path, program: str, *arguments: str, out: Path | None = None) -> str:
    """What the last line of a program says in an environment."""
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    own = {"STEPWATCH_SIZE": "smoke", "STEPWATCH_OUT": str(out or ""), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, "-c", f"import json, sys\n{program}", *arguments],
        env={**os.environ, **threads, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1] if done.stdout else ""


def measure(python: Path, out: Path, only: str, planted: str = "") -> dict[str, Any]:
    """The one record of the worker's document."""
    run(python, planted + WORKER, "--only", only, out=out)
    (record,) = json.loads(out.read_text(encoding="utf-8"))["benchmarks"]
    return dict(record)


def test_the_version_names_the_release() -> None:
    values = {
        target.id: node.value.value
        for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8")))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert values["version"] == f"1+xlb{values['RELEASE']}"


@pytest.mark.install
class TestWithoutIt:
    def test_it_is_skipped_with_the_reason(self, tmp_path: Path) -> None:
        record = measure(install_release(), tmp_path / "out.json", "xlb_package")
        assert (record["status"], record["reason"]) == (
            "skipped",
            "NotImplementedError: xlb is not installed here",
        )
        assert record["name"] == "xlb_package.Cavity.track_mlups"
        assert record["params"] == {"edge": 32, "steps": 10}

    def test_each_refusal_is_one_sentence(self, tmp_path: Path) -> None:
        (tmp_path / "stepwatch.json").write_text('{"left_out": "xlb==0.3.1 depends on jax>=0.8.0"}')
        assert json.loads(run(install_release(), REFUSALS, str(tmp_path))) == {
            "missing": "xlb is not installed here",
            "left out": "xlb is not installed here: xlb==0.3.1 depends on jax>=0.8.0",
            "another": "xlb 0.2.0 is installed here, where this is a benchmark of 0.3.1",
            "broken": "xlb 0.3.1 can't be imported: ModuleNotFoundError: No module named 'xlb'",
            "two devices": "xlb spreads its grid over all 2 devices; make one of them visible",
        }

    def test_the_bandwidth_is_what_the_quickest_copies_read_and_write(self) -> None:
        found, asked = json.loads(run(install_release(), BANDWIDTH))
        moved = 2 * 4 * 7 * 4
        assert found == [moved / 0.5, moved / 4.0]
        assert asked == [[True, "cpu_time", True], [True, "wall_time", True]]

    def test_the_port_tells_its_bytes_and_its_share(self, tmp_path: Path) -> None:
        record = measure(install_release(), tmp_path / "out.json", "lattice_boltzmann")
        check_share(record)


@pytest.fixture
def python() -> Path:
    named = os.environ.get(VARIABLE)
    if not named:
        pytest.skip(f"{VARIABLE} names no interpreter that has xlb (1.6 GB)")
    return Path(named)


class TestWithIt:
    def test_it_is_measured_and_is_right(self, python: Path, tmp_path: Path) -> None:
        record = measure(python, tmp_path / "out.json", "xlb_package")
        assert (record["status"], record["reason"]) == ("ok", None)
        assert record["version"] == "1+xlb0.3.1"
        check_share(record)

    @pytest.mark.parametrize(
        ("planted", "reason"),
        [
            ("xlb_package.Cavity.function = lambda *all: function(*all) * 1.01", "the mass is 1."),
            ("xlb_package.LID_VELOCITY = (0.11, 0.0, 0.0)", "off by up to "),
            ("xlb_package.lattice_boltzmann.viscosity = lambda edge: 0.03", "off by up to "),
        ],
        ids=["mass", "lid", "viscosity"],
    )
    def test_what_differs_from_numpy_is_seen(
        self, python: Path, tmp_path: Path, planted: str, reason: str
    ) -> None:
        # The package computes with what is planted, numpy with what is right.
        apart = f"""
from benchmarks import xlb_package
function = xlb_package.Cavity.function
xlb_package._build(8)
expected = xlb_package.expect(32, 10, 1 / (3 * xlb_package.lattice_boltzmann.viscosity(32) + 0.5))
xlb_package.expect = lambda *_: expected
{planted}
"""
        record = measure(python, tmp_path / "out.json", "xlb_package", planted=apart)
        assert record["status"] == "wrong_result"
        assert record["reason"].startswith(reason)

    @pytest.mark.parametrize("steps", [100, 300])
    def test_both_have_the_same_velocities(self, python: Path, steps: int) -> None:
        """An equilibrium lid acts 1 - 1/omega sites inside its own sites (see docs/benchmarks.md)."""
        edge = 36
        found = json.loads(run(python, PROFILES, str(edge), str(steps)))
        assert found["functions of jax"]
        port = [(site + 0.5, velocity) for site, velocity in enumerate(found["port"])]
        shift = 1 - 1 / found["omega"]
        package = [(site - shift, velocity) for site, velocity in enumerate(found["package"], start=1)]
        # The package's last site lies beyond the port's last one.
        differences = [abs(velocity - interpolate(port, at)) for at, velocity in package[:-1]]
        assert max(found["package"]) > 0.07, "the fluid moves with the lid"
        assert max(differences) < 0.03 * 0.1, "3 % of the lid's speed"


def check_share(record: dict[str, Any]) -> None:
    assert (record["status"], record["reason"]) == ("ok", None)
    (moved,) = (each for each in record["metrics"] if each["metric"] == "bytes_per_update")
    assert moved["blocks"] == [2 * 19 * 4]
    rate, wall, share = record["metrics"][:3]
    assert [each["metric"] for each in (rate, wall, share)] == ["mlups", "mlups_wall", "bandwidth_share"]
    assert [each["judged"] for each in (rate, wall, share)] == [True, False, False]
    copied = [mlups * 1e6 * 152 / part for mlups, part in zip(rate["blocks"], share["blocks"], strict=True)]
    assert copied == pytest.approx([copied[0]] * len(copied))
    assert 1e8 < copied[0] < 1e13, "bytes a second of some machine's memory"


def interpolate(points: list[tuple[float, float]], at: float) -> float:
    """The value at `at` on straight lines between the points."""
    (left, low), (right, high) = next(
        (one, other) for one, other in pairwise(points) if one[0] <= at <= other[0]
    )
    return low + (high - low) * (at - left) / (right - left)
