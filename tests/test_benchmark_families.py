"""Can each benchmark be trusted: does it see a wrong result, does it do its work, and is it in the documents?

Nothing here is timed. One process in an environment with jax sets every benchmark up once, with its first parameters,
and tells what it saw; each test looks at one side of that.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_benchmarks import install_release

from benchmarks import worker

ROOT = Path(__file__).parent.parent
BASES = ("benchmark", "protocol", "worker", "facts")
# These run what is no program of one call, and have tests of their own.
APART = ("lattice_boltzmann", "xlb_package")
GROUPS = {
    *("core", "linalg", "fft", "numpy", "scipy", "control_flow"),
    *("random", "dispatch", "compile", "memory", "neural", "xlb"),
}
GROWTH_MIN = 1.5
LITERAL_MAX = 64
Seen = dict[str, list[dict[str, Any]]]


def constants(node: ast.ClassDef) -> dict[str, ast.expr]:
    """What the body of a class sets, by name."""
    return {
        target.id: statement.value
        for statement in node.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }


def classes() -> dict[str, ast.ClassDef]:
    """The suite's classes, bases among them, by module and name; jax is not needed to read them."""
    return {
        f"{path.stem}.{node.name}": node
        for path in sorted((ROOT / "benchmarks").glob("*.py"))
        if path.stem not in BASES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    }


CLASSES = classes()
BENCHMARKS = sorted(name for name, node in CLASSES.items() if "version" in constants(node))
PROBED = [name for name in BENCHMARKS if name.split(".")[0] not in APART]


GUIDE = (ROOT / "docs" / "writing-benchmarks.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


# --- what runs in the environment, as text: it needs no pytest ------------------------------------------------------


def probe(kind: Any, params: tuple[Any, ...], *, grow: bool = True) -> dict[str, Any]:
    """All that is asked about one benchmark with its parameters."""
    import jax
    import numpy as np

    from benchmarks.linear_algebra import double_precision

    def run(arguments: list[Any]) -> list[Any]:
        with double_precision(enabled=getattr(subject, "doubled", False)):
            return [np.array(each) for each in jax.tree_util.tree_leaves(subject.compiled(*arguments))]

    def turn(position: int) -> list[Any]:
        return [changed(each) if other == position else each.copy() for other, each in enumerate(inputs)]

    subject = kind()
    subject.setup(*params)
    subject.compile()
    inputs = [np.array(each) for each in subject.arguments]
    result = subject.call()
    first = run([each.copy() for each in inputs])
    literals = re.findall(r"stablehlo\.constant.*: tensor<([\dx]+)x\w+>", subject.lowered.as_text())
    return {
        "sound": subject.check(result),
        "spoilt": [
            subject.check(each) for spoil in (spoilt, np.zeros_like) for each in spoil_each(result, spoil)
        ],
        "nan": [subject.check(each) for each in spoil_each(result, with_nan)],
        "literal": max((int(np.prod([int(n) for n in each.split("x")])) for each in literals), default=0),
        "ignored": [position for position in range(len(inputs)) if not differs(first, run(turn(position)))],
        "growth": growth(kind, params, subject) if grow else None,
        "x64": bool(jax.config.jax_enable_x64),
    }


def growth(kind: Any, params: tuple[Any, ...], subject: Any) -> float | None:
    """By what operations and bytes grow with twice the work; None where there is no size, or another's program."""
    doubled = tuple(2 * each if isinstance(each, int) else each for each in params)
    if doubled == params or kind.group == "memory":
        return None
    other = kind()
    other.setup(*doubled)
    other.compile()
    return cost(other) / cost(subject)


def cost(subject: Any) -> float:
    """Operations and bytes, as XLA counts them; it counts the body of a loop once, so times the longest loop's trips."""
    costs = subject.compiled.cost_analysis()
    trips = re.findall(r"known_trip_count\D+(\d+)", subject.compiled.as_text())
    counted = sum(max(costs.get(key, 0), 0) for key in ("flops", "bytes accessed"))
    return float(counted * max(map(int, trips), default=1))


def changed(array: Any) -> Any:
    """The array with other values in it: a truth turned around, the rest in another order, floats also larger."""
    if array.dtype.kind == "b":
        return ~array
    turned = array.ravel()[::-1].reshape(array.shape)
    return turned.copy() if array.dtype.kind in "iu" else (turned * 1.05 + 0.01).astype(array.dtype)


def spoil_each(result: Any, spoil: Any) -> list[Any]:
    """The result with one of its arrays spoilt, for each that can be."""
    import jax
    import numpy as np

    leaves, tree = jax.tree_util.tree_flatten(result)
    arrays = [np.array(each) for each in leaves]
    replaced = [(position, spoil(each)) for position, each in enumerate(arrays)]
    return [
        jax.tree_util.tree_unflatten(tree, [*arrays[:position], each, *arrays[position + 1 :]])
        for position, each in replaced
        if each is not None
    ]


def spoilt(array: Any) -> Any:
    """One percent too much; whole numbers: the first one, or the first row, twice."""
    if array.dtype.kind not in "iu":
        return (array * 1.01).astype(array.dtype)
    if not array.ndim:
        return array + 1
    array = array.copy()
    array[1] = array[0]
    return array


def with_nan(array: Any) -> Any:
    """One value is no number; None for what can't hold that."""
    if array.dtype.kind in "iu":
        return None
    array = array.copy()
    array.flat[array.size // 2] = float("nan")
    return array


def differs(left: list[Any], right: list[Any]) -> bool:
    """Whether any value does."""
    import numpy as np

    return not all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


PLANTED = """
import jax.numpy as jnp
import numpy as np
from benchmarks import reductions

class Dead(reductions.Cumsum):
    def function(self, numbers):
        jnp.cumsum(numbers)
        return jnp.cumsum(jnp.ones_like(numbers))

class Folded(reductions.Cumsum):
    def inputs(self, values):
        self.kept = super().inputs(values)[0]
        return (self.kept,)
    def function(self, numbers):
        return jnp.cumsum(jnp.asarray(self.kept) + 0 * numbers)

class Fixed(reductions.Cumsum):
    def function(self, numbers):
        return jnp.cumsum(numbers[:1024])
    def reference(self, numbers):
        return np.cumsum(numbers[:1024])

class Careless(reductions.Cumsum):
    def check(self, result):
        return None

for kind in (Dead, Folded, Fixed, Careless):
    seen["planted." + kind.__name__] = [probe(kind, (2**14,))]
"""

# The two examples of docs/writing-benchmarks.md: one for this suite, one for any asv suite.
DOCUMENTED = """
ours, users = ({"__name__": "vectors"}, {"__name__": "attention"})
exec(sys.argv[1], ours)
seen["documented.Cross"] = [probe(ours["Cross"], (2**10,))]
exec(sys.argv[2], users)
benchmark = users["Attention"]()
for length in benchmark.params:
    benchmark.setup(length)
    benchmark.time_attention(length)
"""

# With its first parameters, and again where a gradient or double precision is another program.
MAIN = """
import json, os, re, sys
os.environ["STEPWATCH_SIZE"] = "smoke"
from benchmarks import worker
apart = {apart!r}
seen, tried = {{}}, set()
for kind, params in worker.find_cases():
    name = ".".join(worker.name_of(kind).split(".")[:2])
    program = (name, *(each for each in params if each in ("gradient", "float64") and kind.group != "memory"))
    if program not in tried and name.split(".")[0] not in apart:
        tried.add(program)
        found = seen.setdefault(name, [])
        try:
            found.append(probe(kind, params, grow=not found))
        except Exception as error:
            found.append({{"error": repr(error)}})
"""


@pytest.fixture(scope="module")
def seen() -> Seen:
    parts = (probe, growth, cost, changed, spoil_each, spoilt, with_nan, differs)
    program = "\n".join(
        [
            "from __future__ import annotations",
            "from typing import Any",
            *map(inspect.getsource, parts),
            MAIN.format(apart=APART),
            PLANTED,
            DOCUMENTED,
            "json.dump(seen, sys.stdout)",
        ]
    )
    quick = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    done = subprocess.run(
        [install_release(), "-c", program, *EXAMPLES],
        cwd=ROOT,
        env={**os.environ, **dict.fromkeys(worker.THREADS, "1"), "XLA_FLAGS": quick},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: Seen = json.loads(done.stdout)
    return found


@pytest.mark.install
class TestInAnEnvironment:
    def test_each_one_was_tried(self, seen: Seen) -> None:
        assert sorted(name for name in seen if not name.startswith(("planted.", "documented."))) == PROBED
        assert [
            (name, each["error"]) for name, probes in seen.items() for each in probes if "error" in each
        ] == []
        assert {name: len(probes) for name, probes in seen.items() if len(probes) > 1} == {
            "linear_algebra.MatMulKinds": 2,
            "neural.Convolutional": 2,
            "neural.Transformer": 2,
        }

    @pytest.mark.parametrize("name", [*PROBED, "documented.Cross"])
    def test_the_right_result_passes_and_wrong_ones_do_not(self, name: str, seen: Seen) -> None:
        for each in seen[name]:
            assert each["sound"] is None
            assert each["spoilt"]
            assert None not in each["spoilt"]
            assert None not in each["nan"]

    @pytest.mark.parametrize("name", [*PROBED, "documented.Cross"])
    def test_nothing_is_folded_or_dead(self, name: str, seen: Seen) -> None:
        for each in seen[name]:
            assert each["ignored"] == []
            assert each["literal"] <= LITERAL_MAX
            assert each["growth"] is None or each["growth"] >= GROWTH_MIN

    def test_only_what_has_no_size_or_is_measured_elsewhere_can_t_grow(self, seen: Seen) -> None:
        sizeless = [name for name in PROBED if seen[name][0]["growth"] is None]
        assert [name for name in sizeless if not name.startswith("memory.")] == [
            "dispatch.JittedScalar",
            "linear_algebra.MatMulKinds",
        ]

    def test_what_is_planted_is_seen(self, seen: Seen) -> None:
        dead, folded, fixed, careless = (
            seen[f"planted.{name}"][0] for name in ("Dead", "Folded", "Fixed", "Careless")
        )
        assert dead["ignored"] == [0]
        assert folded["literal"] == 2**14
        assert fixed["sound"] is None
        assert fixed["growth"] < GROWTH_MIN
        assert careless["spoilt"] == [None, None]
        assert careless["nan"] == [None]

    def test_double_precision_does_not_leak(self, seen: Seen) -> None:
        assert not any(each["x64"] for probes in seen.values() for each in probes)


# --- sources and documents ------------------------------------------------------------------------------------------


def inherited(name: str, constant: str) -> list[ast.expr]:
    """The values of a constant in a class and in its bases within the suite, the nearest first."""
    node = CLASSES.get(name)
    if node is None:
        return []
    module = name.split(".", maxsplit=1)[0]
    own = [constants(node)[constant]] if constant in constants(node) else []
    texts = [ast.unparse(base) for base in node.bases]
    bases = [text if "." in text else f"{module}.{text}" for text in texts]
    return own + [value for base in bases for value in inherited(base, constant)]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_says_what_its_series_are(name: str) -> None:
    assert re.match(r"\d+", ast.literal_eval(inherited(name, "version")[0]))
    assert ast.literal_eval(inherited(name, "group")[0]) in GROUPS
    assert {len(inherited(name, "param_names")) > 0, len(inherited(name, "params")) > 0} == {True}
    assert ast.get_docstring(CLASSES[name])


def test_a_base_has_no_version() -> None:
    bases = {ast.unparse(base).split(".")[-1] for node in CLASSES.values() for base in node.bases}
    assert len(BENCHMARKS) + 10 < len(CLASSES)
    assert {name.split(".")[1] for name in set(CLASSES) - set(BENCHMARKS)} <= bases


DOCUMENT = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
ROWS = [line for line in DOCUMENT.splitlines() if line.startswith("| `")]


def test_the_table_names_every_benchmark_and_no_other() -> None:
    stems = {name.split(".")[0] for name in CLASSES}
    named = {
        found for row in ROWS for found in re.findall(r"`(\w+\.\w+)`", row) if found.split(".")[0] in stems
    }
    assert named == set(BENCHMARKS)


def test_what_is_out_of_scope_has_no_benchmark() -> None:
    scopes = {row.split("|")[1].strip(): row.split("|")[2].strip() for row in ROWS if row.count("|") == 4}
    assert {"in scope", "in part", "out of scope"} <= set(scopes.values())
    out = [row for row in ROWS if "| out of scope |" in row]
    assert len(out) == 14
    assert {row.split("|")[3].strip() for row in out} == {""}
