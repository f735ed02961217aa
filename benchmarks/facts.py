"""What can be counted about a program, the same to the last digit in every process?

    python_calls_eager     calls of Python functions while the program runs without jit, all its parts compiled before
    python_calls_traced    calls of Python functions while it is traced
    jaxpr_equations        what tracing made of it, inner programs (loop bodies, branches) included
    stablehlo_operations   what was handed to XLA
    hlo_instructions       what XLA made of it, and how many of these are fusions
    hlo_fusions
    flops, bytes_accessed  what XLA says that a call costs; the body of a loop counts once
    memory_bytes           what must be there to run it: arguments, results and temporaries, shared memory once
    temp_bytes             the temporaries alone
    executable_bytes       the machine code

A version that doesn't know one leaves it out, and so does one that says nothing: no memory at all for arguments and
results, no size of the machine code (XLA on CPUs since 0.4.3x), flops below zero.

A count of Python calls must not depend on what the process did before, on where its objects happen to lie, or on who
called. So JAX's caches are emptied first, and the program has been run or traced twice when it is counted; and some
functions are left out with all that they call (`_UNSTEADY` says which and why). Each part of a program that runs without
jit is compiled by itself, so a long program is not counted that way.
"""

from __future__ import annotations

import gc
import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Callable  # noqa: UP035 - what Python 3.9 can subscript

import jax

EAGER_EQUATIONS_MAX = 100

_UNSTEADY = frozenset(
    {
        "__eq__",  # a dictionary asks where two addresses collide
        "__hash__",
        "<genexpr>",  # any() and all() stop where they know enough, in a set of types after one or all, by addresses
        "_create",  # makes what no other part of the process holds already
        "_traceback_to_location",  # one look at each frame of the stack, so longer under a deeper caller
        "_source_info_to_location",
        "source_info_to_location",
    }
)
_STACK_SEARCH = "source_info_util.py"  # likewise
# Each version knows some of these and refuses others in its own way.
_REFUSALS = (AttributeError, NotImplementedError, TypeError, ValueError, KeyError, RuntimeError)


def read_facts(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    lowered: Any,
    compiled: Any,
    *,
    python_calls: bool = True,
) -> tuple[dict[str, float], dict[str, str]]:
    """The counts of a program, those of Python calls where asked for, and hashes before and after XLA's optimisation."""
    counts: dict[str, float] = {}
    hashes: dict[str, str] = {}
    with suppress(*_REFUSALS):
        counts.update(_python_counts(function, arguments) if python_calls else ())
    with suppress(*_REFUSALS):
        text = lowered.as_text()
        counts["stablehlo_operations"] = len(re.findall(r"= \"?stablehlo\.", text))
        hashes["stablehlo"] = _hash(text)
    with suppress(*_REFUSALS):
        text = without_locations(compiled.as_text())
        instructions = re.findall(r"^ +(?:ROOT )?%?[\w.-]+ = (.*)", text, re.MULTILINE)
        counts["hlo_instructions"] = len(instructions)
        counts["hlo_fusions"] = sum(" fusion(" in each for each in instructions)
        hashes["hlo"] = _hash(text)
    with suppress(*_REFUSALS):
        counts.update(_costs(compiled.cost_analysis()))
    with suppress(*_REFUSALS):
        counts.update(_memory(compiled.memory_analysis()))
    return counts, hashes


def count_calls(call: Callable[[], Any]) -> int:
    """How many Python functions `call` calls, itself included, without those that differ between processes."""
    calls = 0
    inside = 0  # how deep in a call that is left out

    def see(frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls, inside
        if event == "call":
            code = frame.f_code
            if inside or code.co_name in _UNSTEADY or code.co_filename.endswith(_STACK_SEARCH):
                inside += 1
            else:
                calls += 1
        elif event == "return" and inside:
            inside -= 1

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(before)
    return calls


def count_equations(jaxpr: Any) -> int:
    """The equations of a jaxpr and of all those in their parameters."""
    return sum(
        1 + sum(count_equations(inner) for value in equation.params.values() for inner in _jaxprs(value))
        for equation in jaxpr.eqns
    )


def without_locations(text: str) -> str:
    """Optimised HLO without what says where in the sources it came from, which differs between checkouts."""
    text = re.sub(r",? metadata=\{(?:[^{}\"]|\"[^\"]*\"|\{[^{}]*\})*\}", "", text)
    tables = r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d.*\n)*"
    return re.sub(tables, "", text, flags=re.MULTILINE)


def _python_counts(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Iterator[tuple[str, float]]:
    def trace() -> Any:
        # a new function each time, or the second trace is looked up
        return jax.make_jaxpr(lambda *given: function(*given))(*arguments)  # noqa: PLW0108

    def run() -> Any:
        return jax.block_until_ready(function(*arguments))

    yield "python_calls_traced", _count_warm(trace)
    equations = count_equations(trace().jaxpr)
    yield "jaxpr_equations", equations
    if equations <= EAGER_EQUATIONS_MAX:
        yield "python_calls_eager", _count_warm(run)


def _count_warm(call: Callable[[], Any]) -> int:
    """The calls of the third time, after a start from empty caches."""
    jax.clear_caches()
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()  # what is collected calls its finalizers
    try:
        call()
        call()
        return count_calls(call)
    finally:
        if was_enabled:
            gc.enable()


def _jaxprs(value: Any) -> Iterator[Any]:
    for each in value if isinstance(value, (tuple, list)) else (value,):
        inner = getattr(each, "jaxpr", each)  # a closed one holds the open one
        if hasattr(inner, "eqns"):
            yield inner


def _costs(said: Any) -> Iterator[tuple[str, float]]:
    costs = said[0] if isinstance(said, list) else said
    for name, key in (("flops", "flops"), ("bytes_accessed", "bytes accessed")):
        if costs.get(key, -1) >= 0:
            yield name, float(costs[key])


def _memory(said: Any) -> Iterator[tuple[str, float]]:
    kept = said.argument_size_in_bytes + said.output_size_in_bytes - said.alias_size_in_bytes
    if kept > 0:
        yield "memory_bytes", kept + said.temp_size_in_bytes
        yield "temp_bytes", said.temp_size_in_bytes
    if said.generated_code_size_in_bytes > 0:
        yield "executable_bytes", said.generated_code_size_in_bytes


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
