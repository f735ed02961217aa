"""Which of the benchmarks run here, in what order, and what came out?

    STEPWATCH_OUT=out.json python -m benchmarks.worker --size smoke --group core --seed 7

runs in the environment under test, with the folder above this one as working directory or on PYTHONPATH. All
selected benchmarks are measured in this one process, in an order that the seed shuffles, and one JSON document is
written to $STEPWATCH_OUT. Exit code 0 where all of them were tried, whatever became of them; 2 where nothing could be.

The document is written whole (a rename) before the first benchmark and after each: what was not reached yet stands in
it as failed, with the reason. So a process that is killed, or killed by XLA, leaves a document that says where.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import hashlib
import importlib
import json
import os
import pkgutil
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import protocol

DOCUMENT = 1
ENDED = "the process ended while this was running"
SUITE = "benchmarks"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_NOT_BENCHMARKS = ("benchmark", "facts", "protocol", "worker")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code."""
    options = _parse(arguments)
    # They are read when jax and the benchmarks' modules are imported.
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    os.environ.pop(
        "JAX_COMPILATION_CACHE_DIR", None
    )  # without the other, in earlier versions, it turns the cache on
    os.environ["STEPWATCH_SIZE"] = options.size
    out = _read_out()
    if isinstance(out, str):
        return _refuse(out)
    document = _start_document(options.size, options.seed)
    if isinstance(document, str):
        return _refuse(document)
    cases = shuffle(select(find_cases(), only=options.only, group=options.group), options.seed)
    if not cases:
        of_group = f"of group {options.group!r} " if options.group else ""
        return _refuse(f"no benchmark {of_group}matches {options.only!r}")
    _run(cases, document, out, brief=options.brief)
    return 0


def find_cases() -> list[tuple[type, tuple[Any, ...]]]:
    """Every benchmark class of the suite with every combination of its parameters."""
    package = importlib.import_module(SUITE)
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{SUITE}.{name}") for name in names if name not in _NOT_BENCHMARKS]
    return [
        (kind, params) for module in modules for kind in _classes(module) for params in _combinations(kind)
    ]


def name_of(kind: type) -> str:
    """A benchmark's asv name, such as `control_flow.WhileLoop.track_time`."""
    (track,) = (name for name in dir(kind) if name.startswith("track_"))
    return f"{kind.__module__.split('.', 1)[1]}.{kind.__name__}.{track}"


def select(
    cases: list[tuple[Any, tuple[Any, ...]]], *, only: str, group: str | None
) -> list[tuple[Any, tuple[Any, ...]]]:
    """Those of `group` (None: any) whose name with parameters contains the regular expression `only`."""
    return [
        (kind, params)
        for kind, params in cases
        if group in {None, kind.group} and re.search(only, _title(kind, params))
    ]


def shuffle(cases: list[tuple[Any, tuple[Any, ...]]], seed: int) -> list[tuple[Any, tuple[Any, ...]]]:
    """In an order that depends on the seed and the names alone, not on Python's version."""

    def position(case: tuple[Any, tuple[Any, ...]]) -> str:
        return hashlib.sha256(f"{seed} {_title(*case)}".encode()).hexdigest()

    return sorted(cases, key=position)


def write_document(document: dict[str, Any], path: Path) -> None:
    """All of it or nothing: into a file beside `path`, which then takes its place."""
    text = json.dumps(document, indent=1, allow_nan=False)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text + "\n", encoding="utf-8")
    beside.replace(path)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.worker", description="Measure this environment."
    )
    parser.add_argument(
        "--size", choices=protocol.SIZES, default=protocol.SIZES[0], help="how large the inputs are"
    )
    parser.add_argument(
        "--only", metavar="REGEX", default="", help="those whose name with parameters matches"
    )
    parser.add_argument("--group", default=None, help="those of one group, such as core")
    parser.add_argument(
        "--brief",
        action="store_true",
        help="leave out what takes long and is not judged, so need not be known of every process of a run: calls of "
        "Python, and the memory's bandwidth",
    )
    parser.add_argument("--seed", type=int, default=0, help="what the order comes from")
    options = parser.parse_args(arguments)
    try:
        re.compile(options.only)
    except re.error as error:
        parser.error(f"--only {options.only!r} is no regular expression: {error}")
    return options


def _refuse(reason: str) -> int:
    sys.stderr.write(f"benchmarks.worker: {reason}\n")
    return 2


def _read_out() -> Path | str:
    """Where the document goes, or why it can't."""
    out = os.environ.get("STEPWATCH_OUT")
    if not out:
        return "STEPWATCH_OUT must name the file to write"
    path = Path(out).absolute()
    return path if path.parent.is_dir() else f"STEPWATCH_OUT is {out}, but its folder does not exist"


def _start_document(size: str, seed: int) -> dict[str, Any] | str:
    """All but the benchmarks, or why jax can't be used; this is where it is imported."""
    warnings = _load_warnings()
    started_at = _now()
    try:
        loaded, device = _loaded(), _device()
    except Exception as error:  # noqa: BLE001 - a broken build can raise anything
        return f"jax can't be used: {protocol.failed(error)['reason']}"
    settings = _settings()
    return {
        "document": DOCUMENT,
        "protocol": protocol.PROTOCOL,
        "suite": SUITE,
        "size": size,
        "seed": seed,
        "started_at": started_at,
        "finished_at": started_at,
        "loaded": loaded,
        "device": device,
        "settings": settings,
        "warnings": warnings + (_cpu_warnings(settings) if device["platform"] == "cpu" else []),
        "benchmarks": [],
    }


def _run(
    cases: list[tuple[type, tuple[Any, ...]]], document: dict[str, Any], out: Path, *, brief: bool
) -> None:
    """Measure each case in turn; the document on disk is always a whole one."""
    judged = protocol.judged_clock(document["device"]["platform"])
    budget = protocol.BUDGETS[document["size"]]
    records = [_unreached(kind, params) for kind, params in cases]
    document["benchmarks"] = records
    gc.collect()
    gc.freeze()  # what jax has made so far stays: no collection looks through it again, which took longer than a block
    for position, (kind, params) in enumerate(cases):
        records[position] = {**_identity(kind, params), **protocol.unmeasured("failed", ENDED)}
        document["finished_at"] = _now()
        write_document(document, out)
        begun = time.perf_counter()
        subject = kind()
        subject.brief = brief
        record = protocol.measure(subject, params, budget=budget, judged=judged)
        records[position] = {**_identity(kind, params), **record}
        if "not finite" in (record["reason"] or ""):
            document["warnings"].append(f"{_title(kind, params)}: {record['reason']}")
        said = _summary(record)
        took_s = time.perf_counter() - begun
        sys.stderr.write(f"[{position + 1}/{len(cases)}] {_title(kind, params)}: {said} ({took_s:.1f} s)\n")
    document["finished_at"] = _now()
    if os.environ.get("STEPWATCH_OBJECTS"):
        document["objects"] = _objects()
    write_document(document, out)


def _classes(module: Any) -> list[type]:
    base = importlib.import_module(f"{SUITE}.benchmark").Benchmark
    values = vars(module).values()
    kinds = [value for value in values if isinstance(value, type) and value.__module__ == module.__name__]
    return [
        kind for kind in kinds if issubclass(kind, base) and not getattr(kind, "__abstractmethods__", None)
    ]


def _combinations(kind: Any) -> list[tuple[Any, ...]]:
    combinations: list[tuple[Any, ...]] = [()]
    for values in kind.params:
        combinations = [(*combination, value) for combination in combinations for value in values]
    return combinations


def _identity(kind: Any, params: tuple[Any, ...]) -> dict[str, Any]:
    return {"name": name_of(kind), "version": kind.version, "params": _named(kind, params)}


def _named(kind: Any, params: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(kind.param_names, params))  # noqa: B905 - Python 3.9 has no strict


def _title(kind: Any, params: tuple[Any, ...]) -> str:
    named = ", ".join(f"{name}={value}" for name, value in _named(kind, params).items())
    return f"{name_of(kind)}({named})"


def _unreached(kind: Any, params: tuple[Any, ...]) -> dict[str, Any]:
    reason = "the process ended before this was reached"
    return {**_identity(kind, params), **protocol.unmeasured("unreached", reason)}


def _summary(record: dict[str, Any]) -> str:
    if record["status"] != "ok":
        return f"{record['status']}, {record['reason']}"
    judged = protocol.leading(record)
    middle = sorted(judged["blocks"])[len(judged["blocks"]) // 2]
    return f"{middle:.4g} {judged['unit']} in {len(judged['blocks'])} blocks"


def _loaded() -> dict[str, str]:
    """What was really imported, which need not be what was asked for."""
    modules = {name: importlib.import_module(name) for name in ("jax", "jaxlib", "numpy", "scipy")}
    versions = {name: str(module.__version__) for name, module in modules.items()}
    files = {f"{name}_file": str(modules[name].__file__) for name in ("jax", "jaxlib")}
    return {"python": platform.python_version(), **versions, **files}


def _objects() -> dict[str, str]:
    """SHA-256 of each shared object of jaxlib and of JAX's plugins that this process has mapped, by path."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    mapped = {line.split(maxsplit=5)[5] for line in lines if ".so" in line.rpartition("/")[2]}
    # a folder on the way has the name: jaxlib, jax_plugins, jax_cuda12_plugin
    ours = sorted(each for each in mapped if re.search(r"/(jaxlib|jax_plugins|jax_cuda\w*)/", each))
    return {each: hashlib.sha256(Path(each).read_bytes()).hexdigest() for each in ours}


def _device() -> dict[str, Any]:
    devices = importlib.import_module("jax").devices()
    return {"platform": devices[0].platform, "kind": devices[0].device_kind, "count": len(devices)}


def _settings() -> dict[str, Any]:
    """What the figures depend on beside the environment; `autotuning` by the digits of its file where it has one."""
    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    threads = {name: os.environ.get(name) for name in THREADS}
    flags = os.environ.get("XLA_FLAGS", "")
    config = importlib.import_module("jax").config
    return {
        "affinity": affinity,
        "threads": threads,
        "xla_flags": flags,
        "autotuning": _autotuning(flags),
        "compilation_cache": getattr(config, "jax_compilation_cache_dir", None) is not None
        and getattr(config, "jax_enable_compilation_cache", True),
    }


def _autotuning(flags: str) -> str:
    """Whether XLA chooses a GPU's kernels afresh at each compile, or takes what a file says."""
    frozen = re.search(r"--xla_gpu_load_autotune_results_from=(\S+)", flags)
    if frozen is None:
        return "fresh"
    return f"frozen {hashlib.sha256(Path(frozen[1]).read_bytes()).hexdigest()[:16]}"


def _load_warnings() -> list[str]:
    load = os.getloadavg()[0]
    return [f"load {load:.1f} at start"] if load > (os.cpu_count() or 1) else []


def _cpu_warnings(settings: dict[str, Any]) -> list[str]:
    warnings = []
    if len(settings["affinity"]) != 1:
        warnings.append(f"not pinned to one core, but allowed on {len(settings['affinity'])}")
    free = [name for name, value in settings["threads"].items() if value != "1"]
    if free:
        warnings.append(f"not 1: {', '.join(free)}")
    return warnings


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


if __name__ == "__main__":
    faulthandler.enable()
    sys.exit(main())
