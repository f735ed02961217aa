"""What is in a virtual environment that somebody else made?

It is measured as it is (a nightly, a source build), and nothing is installed into it: its own interpreter is asked
what jax and jaxlib it loads, from where, and what lies beside them. Two builds of one version differ by the sizes
and times of their files.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from stepwatch.core.model import JAX, XLA, CommitPair, Environment, Outcome, Revision
from stepwatch.runners.protocol import Failure, Opened

PYTHON = Path("bin", "python")
ASK_LIMIT_S = 120  # importing jax from a cold disk
# Python 3.9 runs this. `__pycache__` is written by whoever imports, so it says nothing about the build.
_QUESTION = """
import hashlib, importlib.metadata, importlib.util, json, os, pkgutil, platform, sys
import jax, jaxlib

files = []
names = {"jax", "jaxlib"} | {each.name for each in pkgutil.iter_modules() if each.name.startswith("jax_")}
for name in names:
    for top in importlib.util.find_spec(name).submodule_search_locations or ():
        for folder, below, found in os.walk(top):
            below[:] = [each for each in below if each != "__pycache__"]
            stats = [(each, os.lstat(os.path.join(folder, each))) for each in found]
            files += [[folder, each, stat.st_size, stat.st_mtime_ns] for each, stat in stats]
metadata = [each.metadata for each in importlib.metadata.distributions()]
print(json.dumps({
    "base": sys.implementation.name + " " + platform.python_version(),
    "jax": [jax.__version__, jax.__file__],
    "jaxlib": [jaxlib.__version__, jaxlib.__file__],
    "freeze": sorted({f"{each.get('Name')}=={each.get('Version')}" for each in metadata}),
    "build": hashlib.sha256(repr(sorted(files)).encode()).hexdigest()[:12],
}))
"""


def open_existing(path: Path, flags: Mapping[str, str]) -> Opened | Failure:
    """The environment at `path`, the folder of a virtual environment or its interpreter.

    `flags` are the variables that reach the compiler. Its `base` names the build as well: what was measured of one build is not gone on with in another.
    """
    # not resolved: a virtual environment's python is a link, and is the environment only under its own name
    python = (path / PYTHON if path.is_dir() else path).absolute()
    if not os.access(python, os.X_OK) or python.is_dir():
        return _broken(f"{path} is neither a virtual environment nor its python")
    # as measuring does: what PYTHONPATH adds is no part of the environment
    variables = {
        name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}
    }
    try:
        asked = subprocess.run(
            [str(python), "-c", _QUESTION],
            cwd=python.parent,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASK_LIMIT_S,
            check=False,
        )
        there = json.loads(asked.stdout.splitlines()[-1]) if asked.returncode == 0 else None
    except subprocess.TimeoutExpired:
        return _broken(f"{path}: importing jax did not end after {ASK_LIMIT_S} s")
    except (OSError, ValueError, IndexError):
        return _broken(f"{path} is no Python that can be run")
    if there is None:
        last = next((line for line in reversed(asked.stderr.splitlines()) if line.strip()), "no output")
        return _broken(f"{path}: jax can't be imported there: {last.strip()}", asked.stderr)
    files = {repository: Path(there[name][1]) for repository, name in ((JAX, "jax"), (XLA, "jaxlib"))}
    pair = CommitPair(
        jax=_revision(JAX, there["jax"][0], files[JAX]), xla=_revision(XLA, there["jaxlib"][0], files[XLA])
    )
    environment = Environment(
        pair=pair,
        base=f"{there['base']}, {python.parent.parent} ({there['build']})",
        freeze=tuple(there["freeze"]),
        flags=dict(flags),
    )
    # a source build lies outside the environment's folder: the folder is where both libraries come from
    folder = Path(os.path.commonpath([str(file.resolve().parent) for file in files.values()]))
    return Opened(python=python, folder=folder, environment=environment)


def _revision(repository: str, version: str, file: Path) -> Revision:
    """A version, at the time when its files were put here: when it was made is not known."""
    return Revision(
        repository=repository,
        ref=version,
        committed_at=dt.datetime.fromtimestamp(int(file.stat().st_mtime), dt.UTC),
    )


def _broken(reason: str, log: str = "") -> Failure:
    return Failure(outcome=Outcome.BUILD_FAILED, reason=reason, log=log)
