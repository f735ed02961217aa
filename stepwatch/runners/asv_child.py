"""What runs in the environment under test around asv's own script?

    python asv_child.py loaded                  prints what was imported there and on which device, as JSON
    python asv_child.py SCRIPT run DIR NAME …   runs asv's script with its own words

The script then says what asv knows but doesn't tell: a NaN that a benchmark returned is an error, so that the NaN that
is left means skipped; a skip says why; an error's last line is its type with one line; and `better` may stand at a
class. Nothing of stepwatch can be imported here, only asv_runner.
"""

from __future__ import annotations

import importlib
import json
import math
import platform
import runpy
import sys
import traceback
from types import TracebackType
from typing import Any

SKIPPED = "asv: skipped: "
DIRECTIONS = ("better", "direction")


def main(words: list[str]) -> None:
    """Do what the words ask for; an error is the exit status 1 and the last line."""
    del sys.path[0]  # the folder of this file, whose names are not for benchmarks
    sys.excepthook = _explain
    if words == ["loaded"]:
        sys.stdout.write(json.dumps(_loaded()))
        return
    _complete_asv()
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")


def _loaded() -> dict[str, Any]:
    """What is really imported, which need not be what was asked for, and the devices."""
    jax, jaxlib = importlib.import_module("jax"), importlib.import_module("jaxlib")
    devices = jax.devices()
    return {
        "loaded": {
            "python": platform.python_version(),
            "jax": str(jax.__version__),
            "jaxlib": str(jaxlib.__version__),
            "numpy": _version("numpy"),
            "scipy": _version("scipy"),
            "jax_file": str(jax.__file__),
            "jaxlib_file": str(jaxlib.__file__),
        },
        "device": {
            "platform": devices[0].platform,
            "kind": devices[0].device_kind,
            "count": len(devices),
        },
    }


def _version(name: str) -> str | None:
    try:
        return str(importlib.import_module(name).__version__)
    except ImportError:
        return None


def _complete_asv() -> None:
    base = importlib.import_module("asv_runner.benchmarks._base")
    skip = importlib.import_module("asv_runner.benchmarks.mark").SkipNotImplemented
    kind = base.Benchmark
    describe, run = kind.__init__, kind.do_run

    def describe_with_direction(self: Any, name: str, func: Any, sources: Any) -> None:
        describe(self, name, func, sources)
        for attribute in DIRECTIONS:
            value = next((found for each in sources if (found := getattr(each, attribute, None))), None)
            if isinstance(value, str):
                setattr(self, attribute, value)

    def run_and_tell(self: Any) -> Any:
        try:
            result = run(self)
        except skip as error:
            sys.stdout.write(f"{SKIPPED}{error!r}\n")
            raise
        if isinstance(result, float) and math.isnan(result):
            sys.stdout.flush()
            sys.exit("returned NaN")
        return result

    kind.__init__, kind.do_run = describe_with_direction, run_and_tell


def _explain(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The traceback, and after it the error in one line: notes and longer messages end it otherwise."""
    sys.stdout.flush()
    traceback.print_exception(kind, error, trace)
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    sys.stderr.write(f"{kind.__name__}: {first}\n" if first else f"{kind.__name__}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
