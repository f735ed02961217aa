"""How is any folder of asv benchmarks run, and how does what asv finds become one of our documents?

    STEPWATCH_OUT=out.json python -m stepwatch.runners.asv_suite --python ENVIRONMENT/bin/python --size smoke

runs in stepwatch's own environment, with the suite's folder as working directory. asv finds the benchmarks and starts
a process of the environment under test for each of them, its parameters and its rounds; nothing is installed there,
`asv_runner` is lent through a folder that holds it alone. Each of these processes is read as it ends, so that a crash,
a hang, a skip and a NaN are told apart, and the document (benchmarks/worker.py describes it) on disk is always a whole
one. Exit code 0 where all was tried; 2, with one sentence as the last line, where nothing could be.

The order is asv's, the seed is only noted. What the processes print is on standard output.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import asv_runner
from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.environment import ExistingEnvironment
from asv.repo import NoRepository
from asv.runner import run_benchmarks
from asv.util import ProcessError, UserError, load_json

from stepwatch.core.documents import DOCUMENT
from stepwatch.runners import asv_cases
from stepwatch.runners.asv_cases import Case

PROTOCOL = "asv-0.6.6"
CHILD = str(Path(__file__).with_name("asv_child.py"))
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
CONFIGURATIONS = ("asv.conf.json", "asv.conf.jsonc")


class Watched(ExistingEnvironment):  # type: ignore[misc]  # asv has no types
    """The environment under test; what each process in it leaves behind becomes part of the document."""

    def __init__(self, configuration: Config, python: str, document: dict[str, Any], out: Path) -> None:
        super().__init__(configuration, python, {}, {})
        self.document, self.out = document, out
        self.cases: list[Case] = []
        self.failure = ""

    def run(self, args: Sequence[str], **options: Any) -> Any:
        """What asv calls for each process: discover, setup_cache or run, with the words for its script."""
        script, mode, _, *words = args
        call = [CHILD, script, *args[1:]]
        if mode == "discover":
            return self._discover(call, options)
        known = {case.key: case for case in self.cases}
        concerned = [known[words[0]]] if mode == "run" else self._sharing_cache(words[0])
        self.write(running=concerned)
        output, _, status = ended = super().run(call, **options)
        _say(f"--- {mode} {concerned[0].title}: exit status {status}\n{output.strip()}")
        if mode == "run":
            result = Path(words[-1]).read_text(encoding="utf-8")
            concerned[0].said.append(asv_cases.judge(status, output, result, options["timeout"]))
        elif status != 0:
            reason = asv_cases.judge(status, output, "", options["timeout"])
            for case in concerned:
                case.said.append(reason.within("setup_cache"))
        return ended

    def write(self, *, running: Sequence[Case] = ()) -> None:
        """The document as it stands, put in its place by a rename."""
        self.document["benchmarks"] = [
            asv_cases.record(case, running=any(case is each for each in running)) for case in self.cases
        ]
        self.document["finished_at"] = _now()
        scratch = self.out.with_name(f".{self.out.name}.{os.getpid()}")
        scratch.write_text(json.dumps(self.document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        scratch.replace(self.out)

    def _discover(self, call: list[str], options: dict[str, Any]) -> Any:
        try:
            return super().run(call, **options | {"display_error": False})
        except ProcessError as error:
            _say(f"--- discover: exit status {error.retcode}\n{error.stdout}\n{error.stderr}")
            self.failure = asv_cases.judge(
                error.retcode, error.stderr, "", options.get("timeout", 600)
            ).reason
            raise

    def _sharing_cache(self, name: str) -> list[Case]:
        cache = next(case.cache for case in self.cases if case.name == name)
        return [case for case in self.cases if case.cache == cache]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line in the working directory; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m stepwatch.runners.asv_suite", description=__doc__)
    parser.add_argument("--python", required=True, help="the interpreter of the environment under test")
    parser.add_argument("--size", default="smoke", help="benchmarks can read it as STEPWATCH_SIZE")
    parser.add_argument("--seed", type=int, default=0, help="is noted; the order is asv's")
    parser.add_argument("--only", metavar="REGEX", default="", help="those whose name(params) matches")
    options = parser.parse_args(arguments)
    try:
        selected = re.compile(options.only)
    except re.error as error:
        parser.error(f"--only {options.only!r} is no regular expression: {error}")
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
    os.environ["STEPWATCH_SIZE"] = options.size
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "asv_runner").symlink_to(Path(asv_runner.__file__).parent)
        os.environ["PYTHONPATH"] = folder
        failure = _run(options.python, options.size, options.seed, selected)
    if failure is not None:
        _say(f"asv_suite: {failure}")
        return 2
    return 0


def read_configuration(folder: Path) -> Config | str:
    """What asv needs to know of a suite, or why the folder holds none."""
    file = next((folder / name for name in CONFIGURATIONS if (folder / name).is_file()), None)
    said: dict[str, Any] = {}
    if file is not None:
        try:
            said = load_json(str(file), Config.api_version, js_comments=True)
        except (UserError, ValueError) as error:
            return f"{file.name} can't be read: {' '.join(str(error).split())}"
        benchmarks = folder / said.get("benchmark_dir", "benchmarks")
    else:
        packages = (folder, folder / "benchmarks")
        found = next((each for each in packages if (each / "__init__.py").is_file()), None)
        if found is None:
            return (
                f"neither {CONFIGURATIONS[0]} nor a package of benchmarks (with __init__.py) is in {folder}"
            )
        benchmarks = found
    known: dict[str, Any] = {
        key: said[key] for key in ("project", "default_benchmark_timeout") if key in said
    }
    return Config.from_json({"repo": "none", "dvcs": "none", "benchmark_dir": str(benchmarks), **known})


def _run(python: str, size: str, seed: int, only: re.Pattern[str]) -> str | None:
    """Measure; why nothing could be."""
    configuration = read_configuration(Path.cwd())
    if isinstance(configuration, str):
        return configuration
    document = _start_document(python, size, seed)
    if isinstance(document, str):
        return document
    document["suite"] = Path(configuration.benchmark_dir).name
    environment = Watched(configuration, python, document, Path(os.environ["STEPWATCH_OUT"]))
    try:
        found = Benchmarks.discover(configuration, NoRepository(), [environment], [None])
    except UserError as error:
        return f"the suite can't be read: {environment.failure or str(error) or 'its list is torn'}"
    cases = [case for benchmark in found.values() for case in asv_cases.find(benchmark)]
    environment.cases = [case for case in cases if only.search(case.title)]
    if not environment.cases:
        return f"no benchmark matches {only.pattern!r}" if cases else "the suite has no benchmark"
    # asv's own selection is by regular expression too, but sees parameters as they are written in Python
    choice = "|".join(re.escape(case.choice) for case in environment.cases)
    chosen = Benchmarks(configuration, found.values(), regex=rf"^(?:{choice})$")
    run_benchmarks(chosen, environment, record_samples=True, launch_method="spawn")
    environment.write()
    return None


def _start_document(python: str, size: str, seed: int) -> dict[str, Any] | str:
    """All but the benchmarks, or why jax can't be used in the environment."""
    load = os.getloadavg()[0]
    warnings = [f"load {load:.1f} at start"] if load > (os.cpu_count() or 1) else []
    started_at = _now()
    asked = subprocess.run([python, CHILD, "loaded"], capture_output=True, text=True, check=False)
    if asked.returncode != 0:
        _say(asked.stderr)
        return f"jax can't be used: {asv_cases.judge(asked.returncode, asked.stderr, '', 0).reason}"
    there: Mapping[str, Any] = json.loads(asked.stdout.splitlines()[-1])
    affinity = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if there["device"]["platform"] == "cpu" and len(affinity) != 1:
        warnings.append(f"not pinned to one core, but allowed on {len(affinity)}")
    return {
        "document": DOCUMENT,
        "protocol": PROTOCOL,
        "suite": "",
        "size": size,
        "seed": seed,
        "started_at": started_at,
        "finished_at": started_at,
        **there,
        "settings": {
            "affinity": affinity,
            "threads": {name: os.environ.get(name) for name in THREADS},
            "xla_flags": os.environ.get("XLA_FLAGS", ""),
        },
        "warnings": warnings,
        "benchmarks": [],
    }


def _say(text: str) -> None:
    sys.stdout.write(text.rstrip() + "\n")
    sys.stdout.flush()


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


if __name__ == "__main__":
    sys.exit(main())
