"""What could keep the nights from being measured, told or searched, and what is to be done about it?

What is read and what is concluded from it are kept apart: the `judge_…` functions take plain values.
"""

from __future__ import annotations

import datetime as dt
import enum
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepwatch.jobs.workplace import Nights, Workplace
from stepwatch.runners.engine import connect, read_engine
from stepwatch.runners.fingerprint import cards_here
from stepwatch.runners.image_builds import ImageBuildRunner
from stepwatch.runners.local import INSTALL_LIMIT_S, LocalRunner
from stepwatch.runners.protocol import Runner, UnreachableError
from stepwatch.runners.registry import RegistryError
from storage import reading
from storage.engine import DatabaseUnreachableError
from storage.reading import Rows
from storage.rows import Database

QUIET = dt.timedelta(hours=1)
GIB = 1024**3
FREE_WARN, FREE_ERROR = 5 * GIB, 1 * GIB
GOVERNOR = "/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"


class Grade(enum.StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was looked at, how it is, and what to do about it (empty where nothing has to be done)."""

    what: str
    grade: Grade
    sentence: str
    remedy: str = ""


def examine(runner: Runner, nights: Nights, *, data: Path, now: dt.datetime | None = None) -> list[Finding]:
    """What can be looked at without a database; `data` is the folder where the service keeps its own.

    What does not answer is a finding, not an exception.
    """
    at = now or dt.datetime.now(tz=dt.UTC)
    return [
        *_space(runner, data),
        *_interpreter(runner),
        *_containers(runner),
        _answers(nights, at),
        *_machine(runner),
    ]


def examine_stored(place: Workplace, *, now: dt.datetime | None = None) -> list[Finding]:
    """The database, and what was decided or begun in it and has not come to its end."""
    stored = judge_schema(place.database)
    unfinished = _unfinished(place, now or dt.datetime.now(tz=dt.UTC)) if stored.grade is Grade.OK else []
    return [stored, *unfinished]


def unreachable(error: Exception) -> Finding:
    """The finding about a database that could not even be opened."""
    return Finding(
        what="database",
        grade=Grade.ERROR,
        sentence=str(error),
        remedy="start it, or set database_url to where it is; for the embedded one, state to a folder that can be written",
    )


def judge_schema(database: Database) -> Finding:
    """Whether the database answers, in the shape that this version needs."""
    try:
        found, newest = reading.schema(database)
    except DatabaseUnreachableError as error:
        return Finding(
            what="database",
            grade=Grade.ERROR,
            sentence=f"the database does not answer: {error}",
            remedy="start it, or set database_url to where it is",
        )
    if found != newest:
        return Finding(
            what="database",
            grade=Grade.ERROR,
            sentence=f"its schema is {found or 'not there or incomplete'}, this version needs {newest}",
            remedy="stepwatch db migrate",
        )
    return Finding(what="database", grade=Grade.OK, sentence=f"it answers, with schema {found}")


def judge_space(what: str, folder: Path, free: int) -> Finding:
    """Whether `free` bytes are enough for what is kept in a folder."""
    grade = Grade.ERROR if free < FREE_ERROR else Grade.WARNING if free < FREE_WARN else Grade.OK
    return Finding(
        what=f"space for {what}",
        grade=grade,
        sentence=f"{free / GIB:.1f} GiB are free at {folder}",
        remedy="" if grade is Grade.OK else f"make room until {FREE_WARN // GIB} GiB are free",
    )


def judge_load(load: float, cores: int) -> Finding:
    """Whether a core is left for a benchmark beside what runs already (`load`: the last minute's average)."""
    busy = load > cores - 1 if cores > 1 else load > 0.5
    return Finding(
        what="load",
        grade=Grade.WARNING if busy else Grade.OK,
        sentence=f"{load:.1f} programs ran on {cores} cores in the last minute",
        remedy="measure when less runs, or end what else runs: it is in the figures" if busy else "",
    )


def judge_core(core: int | None, allowed: set[int], *, taskset: bool) -> Finding:
    """Whether a benchmark can have a core of its own; `core` is the configured one."""
    if not taskset:
        sentence, remedy = (
            "the program taskset is not here, so benchmarks move between cores",
            "install util-linux",
        )
    elif core is not None and core not in allowed:
        sentence = (
            f"core {core} is configured, but only {sorted(allowed)} may be used; {max(allowed)} is taken"
        )
        remedy = "set core of the machine to one of them"
    elif len(allowed) < 2:
        sentence, remedy = (
            "there is one core, which benchmarks share with everything else",
            "use a larger machine",
        )
    else:
        chosen = core if core is not None else max(allowed)
        return Finding(what="core", grade=Grade.OK, sentence=f"benchmarks are pinned to core {chosen}")
    return Finding(what="core", grade=Grade.WARNING, sentence=sentence, remedy=remedy)


def judge_governor(core: int, governor: str | None) -> Finding:
    """Whether a core keeps its frequency; None where the machine does not say, as virtual ones don't."""
    if governor is None:
        return Finding(
            what="frequency", grade=Grade.OK, sentence="this machine does not say how it is governed"
        )
    steady = governor == "performance"
    return Finding(
        what="frequency",
        grade=Grade.OK if steady else Grade.WARNING,
        sentence=f"core {core} has the governor {governor}",
        remedy="" if steady else f"cpupower --cpu {core} frequency-set --governor performance",
    )


def judge_unsent(transport: str, rows: Rows) -> Finding:
    """Whether messages have waited too long for a transport."""
    what = f"messages to {transport}"
    if not rows:
        return Finding(what=what, grade=Grade.OK, sentence="none waits")
    errors = [row["error"] for row in rows if row["error"]]
    why = f"; the last error is {errors[-1]}" if errors else "; it has not been tried"
    return Finding(
        what=what,
        grade=Grade.ERROR,
        sentence=f"{len(rows)} could not be delivered, the oldest since {_moment(rows[0]['written_at'])}{why}",
        remedy="mend what the error names, then stepwatch deliver",
    )


def judge_bisections(rows: Rows) -> Finding:
    """Whether an open bisection stands still."""
    if not rows:
        return Finding(what="bisections", grade=Grade.OK, sentence="none stands still")
    numbers = ", ".join(str(row["bisection_id"]) for row in rows)
    return Finding(
        what="bisections",
        grade=Grade.WARNING,
        sentence=f"open, with nothing tried in the last hour: {numbers}",
        remedy=f"stepwatch bisect resume {rows[0]['bisection_id']} (or cancel)",
    )


def judge_runs(rows: Rows) -> Finding:
    """Whether runs were opened and never ended."""
    if not rows:
        return Finding(what="runs", grade=Grade.OK, sentence="every run has ended or can still be running")
    shown = ", ".join(row["run_key"] for row in rows[:3]) + (" and more" if len(rows) > 3 else "")
    return Finding(
        what="runs",
        grade=Grade.WARNING,
        sentence=f"{len(rows)} opened and never ended: {shown}",
        remedy=f"stepwatch nightly {rows[0]['label']}: it goes on where it was"
        if rows[0]["label"] is not None
        else "ask again for what they were made for: it goes on where it was",
    )


def _space(runner: Runner, data: Path) -> list[Finding]:
    folders: Mapping[str, Path] = {"data": data}
    if isinstance(runner, LocalRunner):
        folders = {"environments": runner.environments, **folders}
    return [
        judge_space(what, folder, shutil.disk_usage(_standing(folder)).free)
        for what, folder in folders.items()
    ]


def _standing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there already."""
    return next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())


def _interpreter(runner: Runner) -> list[Finding]:
    """The interpreter for the source's releases; other runners bring their own."""
    if not isinstance(runner, LocalRunner):
        return []
    wanted = ", ".join(runner.python)
    found = runner.interpreter()
    if found is None:
        return [
            Finding(
                what="interpreter",
                grade=Grade.ERROR,
                sentence=f"no Python {wanted} is on this machine",
                remedy=f"install one of Python {wanted}, with its venv module",
            )
        ]
    return [Finding(what="interpreter", grade=Grade.OK, sentence=f"{found} (accepted: Python {wanted})")]


def _containers(runner: Runner) -> list[Finding]:
    """The Docker engine, the room where it keeps images, and the GPUs, of a machine that runs containers."""
    if not isinstance(runner, ImageBuildRunner):
        return []
    try:
        with connect(runner.docker.engine) as client:
            engine = read_engine(client)
    except UnreachableError as error:
        remedy = (
            "install Docker and start it, let this user use it, or set engine of the machine to where it is"
        )
        return [Finding(what="Docker", grade=Grade.ERROR, sentence=str(error), remedy=remedy)]
    said = Finding(what="Docker", grade=Grade.OK, sentence=f"the engine answers, version {engine.version}")
    folder = engine.folder
    room = [judge_space("images", folder, shutil.disk_usage(folder).free)] if folder.is_dir() else []
    return [said, *room, judge_gpus(runner.docker.devices, engine.gpus, cards_here())]


def judge_gpus(wanted: Sequence[str], engine_has_them: bool, cards: int | None) -> Finding:
    """Whether the GPUs that a machine is to have can be had; `cards` is how many the driver shows, None: no driver."""
    what = "GPUs"
    if not wanted:
        return Finding(what=what, grade=Grade.OK, sentence="none is wanted (devices of the machine is empty)")
    if not cards:
        sentence = f"devices {', '.join(wanted)} are wanted, and " + (
            "the driver shows no card" if cards == 0 else "there is no NVIDIA driver here"
        )
        remedy = "install the driver, or empty devices of the machine"
    elif not engine_has_them:
        sentence = "the Docker engine has no runtime for NVIDIA's GPUs"
        remedy = "install nvidia-container-toolkit, then nvidia-ctk runtime configure and restart Docker"
    elif missing := [each for each in wanted if each.isdigit() and int(each) >= cards]:
        sentence = f"device {', '.join(missing)} is wanted, and the driver shows {cards}, from 0 on"
        remedy = "set devices of the machine to those that are there"
    else:
        return Finding(
            what=what, grade=Grade.OK, sentence=f"{cards} cards are here, {', '.join(wanted)} used"
        )
    return Finding(what=what, grade=Grade.ERROR, sentence=sentence, remedy=remedy)


def _answers(nights: Nights, now: dt.datetime) -> Finding:
    """Whether the source can be asked for its nights."""
    what = f"source {nights.source.name}"
    try:
        sentence = nights.check(now.date())
    except UnreachableError as error:
        remedy = "see to the network; what is measured is kept, and the same command goes on from there"
        return Finding(what=what, grade=Grade.ERROR, sentence=str(error), remedy=remedy)
    except RegistryError as error:
        remedy = (
            "set image, container, flavor, or username and password of the source to what the registry has"
        )
        return Finding(what=what, grade=Grade.ERROR, sentence=str(error), remedy=remedy)
    return Finding(what=what, grade=Grade.OK, sentence=sentence)


def _machine(runner: Runner) -> list[Finding]:
    allowed = os.sched_getaffinity(0)
    if isinstance(runner, ImageBuildRunner):
        core = runner.docker.core
    else:
        core = runner.core if isinstance(runner, LocalRunner) else None
    pinned = core if core in allowed else max(allowed)
    return [
        judge_load(os.getloadavg()[0], len(allowed)),
        judge_core(core, allowed, taskset=shutil.which("taskset") is not None),
        judge_governor(pinned, _governor(pinned)),
    ]


def _governor(core: int) -> str | None:
    try:
        return Path(GOVERNOR.format(core=core)).read_text(encoding="ascii").strip()
    except OSError:
        return None


def _unfinished(place: Workplace, now: dt.datetime) -> list[Finding]:
    """What was decided or begun and has not come to its end."""
    suite = place.suite
    longest = dt.timedelta(seconds=suite.processes * suite.time_limit_s + INSTALL_LIMIT_S)
    with reading.snapshot(place.database) as connection:
        waiting = {
            transport.name: reading.unsent(connection, transport.name, before=now - QUIET)
            for transport in place.transports
        }
        still = reading.still_bisections(connection, since=now - QUIET)
        unended = reading.unended_runs(connection, before=now - max(longest, QUIET))
    findings = [judge_unsent(transport, rows) for transport, rows in waiting.items()]
    if not waiting:
        findings.append(
            Finding(
                what="messages",
                grade=Grade.WARNING,
                sentence="no transport is enabled, so nobody is told of anything",
                remedy="set enabled of one of the transports",
            )
        )
    return [*findings, judge_bisections(still), judge_runs(unended)]


def _moment(at: dt.datetime) -> str:
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC"
