"""Which commits of the Docker test bed make a program slower, so that a search must name them?

Two small repositories with a real history, nights that were built from their heads, and an image whose own script builds
them: JAX's Python files are copied over the installed ones, XLA's one object is put beside jaxlib's. The benchmark's work is
what both say: `cost` units each, four times as many where both have their `half`, or where the image's flags say so.

    2024-03-02      the good night
      01:10 jax   words                       01:40 xla   a note
      02:15 xla   a merge that brings COST 4 (in its second commit)
      02:50 xla   a note, three empty hours after it
      06:01 jax   does not build              06:03 jax   builds again, to the same as before
      06:05 jax   COST 4
      10:30 jax   its half                    11:10 xla   its half, and a rule by which nothing is built anew
      13:00 xla   a note                      12:40 xla   a note: the clock went backwards
      14:00 jax   a note
    2024-03-03      the bad night
      05:00 xla   a note                      09:00 jax   a note, both of the next day
    2024-03-05      a night with other flags
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from bed_nights import SITE, Commit, NightSpec, import_history, imported, write_night

GOOD, BAD, FLAGGED = (dt.date(2024, 3, day) for day in (2, 3, 5))
FLAGS = "--xla_cpu_enable_fast_math=true"
BENCHMARK = "planted.Planted.track_units"


@dataclass(frozen=True, kw_only=True)
class Made:
    """One commit to be made on a branch, from `of` where that is not the branch's last one; `merges` is another's name."""

    name: str
    repository: str
    at: str
    files: dict[str, str]
    branch: str = "main"
    of: str | None = None
    merges: str | None = None

    @property
    def when(self) -> dt.datetime:
        return dt.datetime.fromisoformat(f"2024-03-{self.at}+00:00")


def _xla(name: str, at: str, *, cost: int, half: bool = False, lazy: bool = False, **more: str) -> Made:
    planted = json.dumps({"cost": cost, "half": half, "note": name})
    files = {"xla/planted.json": planted, "xla/BUILD": "lazy\n" if lazy else "built anew\n"}
    return Made(name=name, repository="xla", at=at, files=files, **more)


def _jax(name: str, at: str, *, cost: int, half: bool = False, note: str = "", wrong: str = "") -> Made:
    planted = f"COST = {cost}\nHALF = {half}\nNOTE = {note!r}\n{wrong}"
    return Made(
        name=name, repository="jax", at=at, files={"jax/planted.py": planted, "README.md": f"{name}\n"}
    )


COMMITS = [
    _xla("start of xla", "01 20:00", cost=1),
    _xla("last of the first day", "01 22:00", cost=1),
    _xla("a branch begins", "02 00:30", cost=1, branch="side", of="last of the first day"),
    _xla("cost on the branch", "02 02:00", cost=4, branch="side"),
    _xla("a note of the night", "02 01:40", cost=1),
    _xla("merge the branch", "02 02:15", cost=4, merges="cost on the branch"),
    _xla("a note before three empty hours", "02 02:50", cost=4),
    _xla("half of xla", "02 11:10", cost=4, half=True, lazy=True),
    _xla("a note at one", "02 13:00", cost=4, half=True),
    _xla("the clock went backwards", "02 12:40", cost=4, half=True),
    _xla("a note of the next day", "04 05:00", cost=4, half=True),
    _jax("start of jax", "01 19:00", cost=1),
    _jax("last of the first day", "01 21:00", cost=1),
    _jax("words of the night", "02 01:10", cost=1),
    _jax("does not build", "02 06:01", cost=1, wrong="def (:\n"),
    _jax("builds again", "02 06:03", cost=1),
    _jax("cost of jax", "02 06:05", cost=4),
    _jax("half of jax", "02 10:30", cost=4, half=True),
    _jax("a note at two", "02 14:00", cost=4, half=True, note="two"),
    _jax("a note of the next day", "04 09:00", cost=4, half=True, note="next"),
]


def lay(folder: Path, repository: str, until: dt.date) -> dict[str, str]:
    """Make a repository with what was committed before a day, its main line checked out; hashes by the commits' names."""
    commits = [each for each in COMMITS if each.repository == repository and each.when.date() < until]
    marks = {each.name: f":{number}" for number, each in enumerate(commits, start=1)}
    import_history(folder, "".join(_imported(each, marks) for each in commits), "--export-marks=../marks")
    known = dict(line.split() for line in (folder.parent / "marks").read_text(encoding="utf-8").splitlines())
    (folder.parent / "marks").unlink()
    return {name: known[mark] for name, mark in marks.items()}


def _imported(commit: Made, marks: dict[str, str]) -> str:
    parents = [("from", commit.of), ("merge", commit.merges)]
    return imported(
        Commit(subject=commit.name, at=commit.when, files=commit.files),
        branch=commit.branch,
        mark=marks[commit.name],
        parents=[f"{word} {marks[name]}" for word, name in parents if name],
    )


# --- nights -----------------------------------------------------------------------------------------------------------

BUILD_JAX = f"""#!/bin/sh
# stands for the script that builds jaxlib and JAX from the sources, with the options of the real one that are used
set -e
while [ $# -gt 0 ]; do
    case "$1" in
        --src-path-jax) jax=$2 ;;
        --src-path-xla) xla=$2 ;;
        --bazel-cache) cache=$2 ;;
        --sm) ;;
        *) echo "UNKNOWN OPTION $1" >&2; exit 1 ;;
    esac
    shift 2
done
object=$HOME/.cache/planted/planted.so
mkdir -p "$cache" "$(dirname "$object")"
if [ -f "$object" ] && grep -q lazy "$xla/xla/BUILD"; then
    echo "nothing to be done for $object"
else
    cp "$xla/xla/planted.json" "$object"
fi
python3 -m py_compile "$jax/jax/planted.py"
cp "$object" /{SITE}/jaxlib/planted.so
cp "$jax/jax/planted.py" /{SITE}/jax/planted.py
"""


@dataclass(frozen=True, kw_only=True)
class PlantedNight(NightSpec):
    """A night that was built from the heads of the evening before."""

    def write(self, root: Path) -> None:
        write_night(root, self, lay=lambda place, name: list(lay(place, name, self.date).values()))
        script = root / "usr/local/bin/build-jax.sh"
        script.write_text(BUILD_JAX, encoding="utf-8")
        site = root / SITE
        for name, source in (
            ("jaxlib/planted.so", "xla/xla/planted.json"),
            ("jax/planted.py", "jax/jax/planted.py"),
        ):
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / "opt" / source, site / name)


NIGHTS = [
    PlantedNight(date=GOOD, jax="0.4.20"),
    PlantedNight(date=BAD, jax="0.4.20"),
    PlantedNight(date=FLAGGED, jax="0.4.20", flags=FLAGS),
]

SUITE = '''"""What both repositories say that it costs, in units: how a machine's noise is borne, other tests ask."""

import json
import mmap
import os
from pathlib import Path

import jaxlib
import numpy as np
from jax import planted

from benchmarks.benchmark import Compared


class Planted(Compared):
    unit = "units"
    better = "lower"
    version = "1"
    group = "core"
    param_names = ()
    params = ()

    def inputs(self):
        return (np.ones(4, dtype=np.float32),)

    def reference(self, x):
        return x

    def setup(self):
        super().setup()
        self.file = Path(jaxlib.__file__).with_name("planted.so").open("rb")
        self.object = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)  # as a library would be
        xla = json.loads(self.object[:])
        both = planted.HALF and xla["half"]
        flagged = "fast_math" in os.environ.get("XLA_FLAGS", "")
        self.units = planted.COST * xla["cost"] * (4 if both else 1) * (4 if flagged else 1)

    def function(self, x):
        return x

    def metrics(self, timing, judged):
        return [{
            "metric": "units", "unit": self.unit, "better": self.better, "judged": True,
            "blocks": [float(self.units)],
        }]

    def track_units(self):
        return float(self.units)
'''


def write_suite(folder: Path) -> None:
    """A suite of one benchmark beside what any suite of ours is made of."""
    ours = Path(__file__).parents[1] / "benchmarks"
    (folder / "benchmarks").mkdir(parents=True)
    for name in ("__init__", "benchmark", "facts", "protocol", "worker"):
        shutil.copy(ours / f"{name}.py", folder / "benchmarks")
    (folder / "benchmarks/planted.py").write_text(SUITE, encoding="utf-8")
