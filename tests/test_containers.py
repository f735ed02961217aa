"""Are nights measured in real containers, each gap and failure with its reason, and is nothing left behind?

On the tests' own Docker engine and registry (docker_bed.py), by the jobs that the DAGs call, on a real Postgres.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from bed_nights import NIGHTS, Fault, NightSpec, heads, night_of
from docker_bed import Bed
from fake_registry import FakeRegistry, basic
from sqlalchemy.engine import URL
from worlds import ask, emptied, one_schema

from stepwatch import settings as configuration
from stepwatch import wiring
from stepwatch.core.model import Direction, Image, Machine, Night
from stepwatch.jobs import janitor
from stepwatch.jobs.bench import InterruptedRunError, bench
from stepwatch.jobs.nightly import measure_night, nightly
from stepwatch.jobs.record import record
from stepwatch.jobs.resolve import resolve
from stepwatch.jobs.workplace import Workplace
from stepwatch.runners.containers import DockerRunner
from stepwatch.runners.engine import NAME, local_name
from stepwatch.runners.image_builds import ImageBuildRunner
from stepwatch.runners.nightlies import RegistryNights
from stepwatch.runners.protocol import Opened, UnreachableError
from storage.incidents import open_incident
from storage.nights import find_night
from storage.rows import Database

pytestmark = pytest.mark.docker

CLONE = Path(__file__).resolve().parent.parent
SCATTER = "scatter.ScatterAdd.track_time"
OLD = "0.4.20"
PATIENCE_S = 60.0
NOBODY = 65534
EVER = 36500  # days: the nights of the bed are of February 2024


def day(number: int) -> dt.date:
    return dt.date(2024, 2, number)


def faulty(fault: Fault) -> NightSpec:
    return next(each for each in NIGHTS if each.fault is fault)


@dataclass
class Scene:
    """A configured service beside a bed; `said` is what its jobs said."""

    bed: Bed
    database: Database
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    said: list[str] = field(default_factory=list)

    def place(self, *, registry: str | None = None, **machine: Any) -> Workplace:
        """The workplace by settings as a person writes them."""
        host = registry or self.bed.registry
        own = {"runner": "docker", "engine": self.bed.socket, "control_days": 0} | machine
        lines = [
            f'state = "{self.folder / "state"}"',
            f'cache = "{self.folder / "cache"}"',
            'machine = "bench"',
            'source = "nightlies"',
            'suite = "one"',
            "[machines.bench]",
            *(f"{key} = {json.dumps(value)}" for key, value in own.items()),
            "[sources.nightlies]",
            'kind = "registry"',
            f'image = "{host}/nvidia/{{container}}:{{flavor}}-{{date}}"',
            f'earlier_images = [{{through = 2024-02-09, image = "{host}/nvidia/{{container}}:nightly-{{date}}"}}]',
            "look_back_days = 0",
            "[suites.one]",
            'group = "all"',
            'only = "ScatterAdd"',
            "processes = 1",
            "time_limit_s = 60",
            "[transports.console]",
            "enabled = false",
        ]
        file = self.folder / "stepwatch.toml"
        file.write_text("\n".join(lines), encoding="utf-8")
        for name in [each for each in os.environ if each.startswith("STEPWATCH_")]:
            self.monkeypatch.delenv(name)
        self.monkeypatch.setenv("STEPWATCH_CONFIG", str(file))
        return wiring.workplace(configuration.load(), self.database, say=self.said.append)

    def publish(self, *specs: NightSpec) -> None:
        for spec in specs:
            self.bed.publish(spec)

    def run(self, label: str) -> tuple[str | None, str | None, list[str]]:
        """How the last run of a night ended, why, and with which warnings."""
        query = (
            "select outcome, reason, warnings from run join night on night.id = run.night_id"
            " where label = :label order by run.id desc limit 1"
        )
        (row,) = ask(self.database, query, label=label)
        return row[0], row[1], row[2]

    def gap(self, label: str) -> str | None:
        ((reason,),) = ask(self.database, "select gap_reason from night where label = :label", label=label)
        return None if reason is None else str(reason)

    def pair(self, label: str) -> dict[str, str]:
        """The commits of a night."""
        query = (
            "select jax.ref, xla.ref as xla from night join pair on pair.id = night.pair_id"
            " join revision jax on jax.id = pair.jax_id join revision xla on xla.id = pair.xla_id"
            " where label = :label"
        )
        ((jax, xla),) = ask(self.database, query, label=label)
        return {"jax": jax, "xla": xla}

    def environment(self, label: str) -> dict[str, Any]:
        query = (
            'select base, environment."freeze", flags, image_digest from environment'
            " join run on run.environment_id = environment.id join night on night.id = run.night_id"
            " where label = :label order by run.id desc limit 1"
        )
        (row,) = ask(self.database, query, label=label)
        return dict(zip(("base", "freeze", "flags", "digest"), row, strict=True))

    def value(self, label: str) -> float:
        query = (
            "select value from measurement join run on run.id = measurement.run_id"
            " join night on night.id = run.night_id join series on series.id = measurement.series_id"
            " where label = :label and benchmark = :name and judged and origin = 'nightly'"
        )
        ((value,),) = ask(self.database, query, label=label, name=SCATTER)
        return float(value)

    def containers(self) -> list[dict[str, Any]]:
        """Every container of ours, running or not, as `docker inspect` has it."""
        listed = self.bed.docker("ps", "--all", "--quiet", "--filter", "label=stepwatch").stdout.split()
        found: list[dict[str, Any]] = []
        for each in listed:
            done = self.bed.docker("inspect", each)
            found += json.loads(done.stdout) if done.returncode == 0 else []
        return found

    def measuring(self) -> dict[str, Any]:
        """The container in which a benchmark's process runs now, once there is one."""
        for _ in waiting():
            for each in self.containers():
                if each["State"]["Running"] and "benchmarks.worker" in each["Args"]:
                    return each
        raise AssertionError

    def images(self) -> set[str]:
        """Our names of the images that are kept."""
        listed = self.bed.docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", NAME)
        return set(listed.stdout.split())

    def digests(self) -> set[str]:
        """The digests of all images that the engine has."""
        listed = self.bed.docker("image", "ls", "--all", "--digests", "--format", "{{.Digest}}")
        return set(listed.stdout.split())


def waiting() -> Iterator[None]:
    """Again and again, for as long as is reasonable."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        yield
        time.sleep(0.1)
    raise TimeoutError("nothing of the kind has come")


@pytest.fixture(scope="module")
def schema(database_server: URL) -> Iterator[Database]:
    with one_schema(database_server) as opened:
        yield opened


@pytest.fixture
def scene(bed: Bed, schema: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A service without nights; whatever a test does, no container is left."""
    opened = Scene(bed, emptied(schema), tmp_path, monkeypatch)
    yield opened
    left = [each["Name"] for each in opened.containers()]
    for each in opened.containers():
        bed.docker("rm", "--force", each["Id"])
    for name in opened.images():  # each test pulls what it needs; the layers stay
        bed.docker("image", "rm", name)
    assert left == []


def docker_runner(place: Workplace) -> DockerRunner:
    assert isinstance(place.runner, ImageBuildRunner)
    return place.runner.docker


def opened_night(place: Workplace, label: str) -> Opened:
    """A night that has been resolved, its image pulled and asked."""
    opened = place.runner.open_night(resolve(place, label))
    assert isinstance(opened, Opened), opened
    return opened


def measured(place: Workplace, label: str) -> None:
    """A night is measured and stored, and nobody looks what it means."""
    resolve(place, label)
    run_key = bench(place, label)
    assert run_key is not None
    record(place, run_key)


# --- gaps -------------------------------------------------------------------------------------------------------------


class TestGaps:
    def test_a_day_without_an_image(self, scene: Scene) -> None:
        place = scene.place()
        nightly(place, "2024-02-19")
        assert scene.gap("2024-02-19") == (
            f"not published: {scene.bed.reference(day(19))} is not in the registry"
        )
        assert ask(scene.database, "select count(*) from run") == [(0,)]

    def test_an_image_for_another_platform(self, scene: Scene) -> None:
        scene.publish(faulty(Fault.ARM64_ONLY))
        nightly(scene.place(), "2024-02-21")
        assert scene.gap("2024-02-21") == (
            f"{scene.bed.reference(day(21))} was built for linux/arm64 only, and linux/amd64 is asked for"
        )

    def test_an_image_that_goes_before_the_night_is_measured(self, scene: Scene) -> None:
        scene.publish(faulty(Fault.PRUNED))
        place = scene.place()
        assert resolve(place, "2024-02-22").gap_reason is None
        scene.bed.prune(day(22))
        nightly(place, "2024-02-22")
        reason = scene.gap("2024-02-22")
        assert reason is not None
        assert reason.startswith(
            f"pruned: {scene.bed.reference(day(22))} was in the registry when it was first seen (sha256:"
        )

    def test_an_image_that_goes_before_it_is_pulled(self, scene: Scene) -> None:
        scene.publish(faulty(Fault.PRUNED))
        place = scene.place()
        resolve(place, "2024-02-22")
        scene.bed.prune(day(22))
        bench(place, "2024-02-22")
        reason = (
            f"pruned: {scene.bed.reference(day(22))} was in the registry when it was first seen,"
            " and is no longer"
        )
        assert scene.run("2024-02-22")[:2] == ("image_missing", reason)
        assert scene.gap("2024-02-22") == reason

    def test_what_was_measured_stays_when_its_image_goes(self, scene: Scene) -> None:
        scene.publish(faulty(Fault.PRUNED))
        place = scene.place()
        nightly(place, "2024-02-22")
        scene.bed.prune(day(22))
        nightly(place, "2024-02-22")
        assert scene.gap("2024-02-22") is None
        assert any("what was measured of it stays" in each for each in scene.said)

    def test_a_gap_that_is_published_later_is_measured(self, scene: Scene) -> None:
        scene.publish(night_of(day(18)))
        place = replace(scene.place(), look_back_days=EVER)
        nightly(place, "2024-02-19")
        scene.publish(replace(faulty(Fault.MISSING), fault=Fault.NONE))
        try:
            nightly(place, "2024-02-18")
        finally:
            scene.bed.prune(day(19))
        assert scene.gap("2024-02-19") is None
        assert scene.run("2024-02-19")[0] == "ok"
        assert "2024-02-19: it is there by now" in scene.said
        assert scene.value("2024-02-19") > 0

    def test_a_gap_further_back_than_is_looked_is_not_asked_about_again(self, scene: Scene) -> None:
        scene.publish(night_of(day(18)))
        place = replace(scene.place(), look_back_days=5)
        nightly(place, "2024-02-19")
        scene.said.clear()
        nightly(place, "2024-02-18")
        assert not [each for each in scene.said if each.startswith("2024-02-19")]


# --- failures ---------------------------------------------------------------------------------------------------------


class TestFailures:
    def test_an_image_whose_jax_does_not_load(self, scene: Scene) -> None:
        scene.publish(faulty(Fault.BROKEN))
        nightly(scene.place(), "2024-02-20")
        outcome, reason, _ = scene.run("2024-02-20")
        assert outcome == "benchmark_failed"
        assert reason is not None
        assert "ImportError: libcudart.so.12: cannot open shared object file" in reason
        assert scene.gap("2024-02-20") is None, "the image is there: a failed night is no gap"

    def test_an_image_that_hangs(self, scene: Scene) -> None:
        scene.publish(faulty(Fault.HANGS))
        place = scene.place()
        place = replace(place, suite=replace(place.suite, time_limit_s=5))
        started = time.monotonic()
        nightly(place, "2024-02-24")
        assert scene.run("2024-02-24")[:2] == ("timed_out", "not ended after 5 s: no output")
        assert time.monotonic() - started < 45

    def test_a_machine_with_too_little_memory(self, scene: Scene) -> None:
        scene.publish(night_of(day(16)))
        nightly(scene.place(memory="64m"), "2024-02-16")
        outcome, reason, warnings = scene.run("2024-02-16")
        said = [reason, *warnings]
        assert [each for each in said if each and ("memory" in each or "signal" in each)], (outcome, said)

    def test_a_registry_where_nobody_listens(self, scene: Scene) -> None:
        place = scene.place(registry="127.0.0.1:1")
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
            nightly(place, "2024-02-16")
        assert ask(
            scene.database, "select (select count(*) from night), (select count(*) from run) as r"
        ) == [(0, 0)]

    def test_an_engine_that_does_not_answer_leaves_the_run_to_be_gone_on_with(self, scene: Scene) -> None:
        scene.publish(night_of(day(16)))
        nowhere = f"unix://{scene.folder}/nowhere.sock"
        with pytest.raises(UnreachableError, match=nowhere):
            nightly(scene.place(engine=nowhere), "2024-02-16")
        assert scene.run("2024-02-16") == (None, None, [])
        nightly(scene.place(), "2024-02-16")
        assert ask(scene.database, "select attempt, outcome from run") == [(1, "ok")]


# --- what is in an image ----------------------------------------------------------------------------------------------


class TestEnvironment:
    @pytest.mark.parametrize(
        ("fault", "words"),
        [
            pytest.param(
                Fault.NO_DOT_GIT,
                {
                    "the commit of jax is taken from git-clone.yaml: no .git in the image",
                    "the commit of xla is taken from git-clone.yaml: no .git in the image",
                },
                id="no .git",
            ),
            pytest.param(
                Fault.DIRTY,
                {f"/opt/{each}: HEAD is detached" for each in ("jax", "xla")},
                id="detached and dirty",
            ),
            pytest.param(
                Fault.NO_GIT,
                {
                    f"/opt/{each}: there is no git in the image, so nobody can say whether its files were changed"
                    for each in ("jax", "xla")
                },
                id="no git",
            ),
        ],
    )
    def test_doubtful_sources_are_measured_and_said(
        self, scene: Scene, fault: Fault, words: set[str]
    ) -> None:
        spec = faulty(fault)
        scene.publish(spec)
        nightly(scene.place(), str(spec.date))
        outcome, _, warnings = scene.run(str(spec.date))
        assert outcome == "ok"
        assert words <= set(warnings), warnings
        assert scene.pair(str(spec.date)) == heads(spec)
        if fault is Fault.DIRTY:
            assert [each for each in warnings if each.endswith("a file differs from HEAD: README.md")]

    @pytest.mark.parametrize("number", [5, 16], ids=["early", "late"])
    def test_a_good_night_is_its_image(self, scene: Scene, number: int) -> None:
        spec = night_of(day(number))
        scene.publish(spec)
        nightly(scene.place(), str(spec.date))
        assert scene.pair(str(spec.date)) == heads(spec)
        found = scene.environment(str(spec.date))
        assert found["base"].startswith("cpython 3.11.")
        assert found["base"].endswith(", nvidia/cuda:12.3.1-devel-ubuntu22.04")
        assert {f"jax=={spec.jax}", f"jaxlib=={spec.jax}", "numpy==1.26.4"} <= set(found["freeze"])
        assert found["flags"] == {}
        _, warnings = scene.run(str(spec.date))[1:]
        assert not [each for each in warnings if "/opt/" in each or "commit" in each]
        inspected = scene.bed.docker("image", "inspect", local_name(found["digest"]))
        (described,) = json.loads(inspected.stdout)
        assert f"{scene.bed.registry}/nvidia/jax@{found['digest']}" in described["RepoDigests"]

    def test_an_images_flags_reach_the_compiler(self, scene: Scene) -> None:
        """Without its thunk runtime XLA 0.4.35 adds scattered values many times faster."""
        flags = "--xla_cpu_use_thunk_runtime=false"
        scene.publish(night_of(day(17)), replace(night_of(day(18)), flags=flags))
        place = scene.place()
        measured(place, "2024-02-17")
        measured(place, "2024-02-18")
        assert scene.environment("2024-02-18")["flags"] == {"XLA_FLAGS": flags}
        assert scene.value("2024-02-18") < scene.value("2024-02-17") / 4

    def test_of_a_tag_that_moves_the_first_image_is_measured(self, scene: Scene) -> None:
        spec = faulty(Fault.MOVED)
        scene.publish(spec)
        place = scene.place()
        first = resolve(place, "2024-02-23").image
        assert first is not None
        assert scene.bed.move(spec.date, OLD) != first.index
        nightly(place, "2024-02-23")
        found = scene.environment("2024-02-23")
        assert found["digest"] == first.digest
        assert f"jax=={spec.jax}" in found["freeze"]
        (said,) = [each for each in scene.said if "moved" in each]
        nightly(place, "2024-02-23")
        told = "select message ->> 'title' from outbox where kind like 'image %'"
        assert ask(scene.database, told) == [(f"nightlies {said}",)], "to people once"
        assert said.startswith(
            f"2024-02-23: the tag {scene.bed.reference(spec.date)} moved: {first.index[:19]}"
        )

    def test_an_image_is_asked_once(self, scene: Scene) -> None:
        scene.publish(night_of(day(16)))
        place = scene.place()
        opened = opened_night(place, "2024-02-16")
        since = f"{time.time():.3f}"
        assert opened_night(scene.place(), "2024-02-16") == opened
        assert events(scene, since) == []

    def test_what_was_kept_of_an_older_question_is_asked_anew(self, scene: Scene) -> None:
        """Another version of stepwatch, which asked for other things, has kept its answers here."""
        scene.publish(night_of(day(16)))
        opened = opened_night(scene.place(), "2024-02-16")
        kept = list((scene.folder / "cache/images").glob("*.json"))
        assert kept
        for each in kept:
            each.write_text('{"python": "cpython 3.11.2"}', encoding="utf-8")
        assert opened_night(scene.place(), "2024-02-16") == opened


# --- containers -------------------------------------------------------------------------------------------------------


def events(scene: Scene, since: str) -> list[tuple[str, str]]:
    """What has happened to our containers since a time: (what, to which), in order."""
    line = ("events", "--since", since, "--until", f"{time.time():.3f}", "--filter", "label=stepwatch")
    told = map(json.loads, scene.bed.docker(*line, "--format", "{{json .}}").stdout.splitlines())
    return [(each["Action"], each["Actor"]["Attributes"]["name"]) for each in told]


@contextlib.contextmanager
def going_on(place: Workplace, label: str) -> Iterator[Callable[[], BaseException | str | None]]:
    """A night is being measured in another thread; what is yielded waits for its end and says how that was."""
    ended: list[BaseException | str | None] = []

    def work() -> None:
        try:
            ended.append(bench(place, label))
        except Exception as error:  # noqa: BLE001 - it is what the test asks about
            ended.append(error)

    thread = threading.Thread(target=work, daemon=True)

    def end() -> BaseException | str | None:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        return ended[0]

    thread.start()
    try:
        yield end
    finally:
        place.runner.cancel()
        thread.join(PATIENCE_S)


@pytest.fixture
def hanging(scene: Scene) -> str:
    """The label of a night whose import never ends: there is time to look."""
    scene.publish(faulty(Fault.HANGS))
    return "2024-02-24"


class TestContainer:
    def test_it_has_one_cpu_no_network_no_new_privileges_and_a_suite_that_can_not_be_written(
        self, scene: Scene, hanging: str
    ) -> None:
        place = scene.place(core=0, memory="2g")
        resolve(place, hanging)
        with going_on(place, hanging):
            found = scene.measuring()

            def inside(*words: str) -> subprocess.CompletedProcess[str]:
                return scene.bed.docker("exec", found["Id"], *words)

            assert inside("ls", "/sys/class/net").stdout.split() == ["lo"]
            python = "import os; print(*sorted(os.sched_getaffinity(0)))"
            assert inside("python3", "-c", python).stdout.split() == ["0"]
            assert "\nNoNewPrivs:\t1\n" in inside("cat", "/proc/1/status").stdout
            refused = inside("touch", "/stepwatch/suite/benchmarks/mine.py")
            assert refused.returncode != 0
            assert "Read-only file system" in refused.stderr
            assert inside("touch", "/stepwatch/out/mine").returncode == 0
        limits = found["HostConfig"]
        assert (limits["Memory"], limits["ShmSize"], limits["CpusetCpus"]) == (2 * 2**30, 2**30, "0")
        assert (limits["Privileged"], limits["NetworkMode"]) == (
            False,
            "none",
        )  # the bed's engine has no other
        assert found["Config"]["Labels"]["stepwatch.machine"] == "bench"
        assert not (CLONE / "benchmarks/mine.py").exists()

    def test_cancelling_from_elsewhere_ends_it_and_the_run_can_go_on(
        self, scene: Scene, hanging: str
    ) -> None:
        place = scene.place()
        resolve(place, hanging)
        with going_on(place, hanging) as end:
            scene.measuring()
            cancelled = time.monotonic()
            place.runner.cancel()
            assert isinstance(end(), InterruptedRunError)
            assert time.monotonic() - cancelled < 15
        assert scene.containers() == []
        assert scene.run(hanging)[0] is None, "it stays open"

    def test_cancelling_while_the_image_is_asked(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        from stepwatch.runners import image_question

        slow = scene.folder / "slow.py"
        slow.write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
        monkeypatch.setattr(image_question, "__file__", str(slow))
        scene.publish(night_of(day(16)))
        place = scene.place()
        resolve(place, "2024-02-16")
        with going_on(place, "2024-02-16") as end:
            for _ in waiting():
                if any(each["State"]["Running"] for each in scene.containers()):
                    break
            place.runner.cancel()
            assert isinstance(end(), InterruptedRunError)
        assert scene.containers() == []

    def test_one_that_somebody_removes_leaves_the_run_open(self, scene: Scene, hanging: str) -> None:
        place = scene.place()
        resolve(place, hanging)
        with going_on(place, hanging) as end:
            scene.bed.docker("rm", "--force", scene.measuring()["Id"])
            assert isinstance(end(), InterruptedRunError | UnreachableError)
        assert scene.run(hanging)[0] is None

    def test_a_user_who_is_not_root_can_measure(self, scene: Scene) -> None:
        """The engine is root, so what a container writes is root's."""
        if not all(each.stat().st_mode & 0o001 for each in (CLONE, *CLONE.parents)):
            pytest.skip("this clone lies where other users can't read it")
        scene.publish(night_of(day(16)))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            os.link(scene.bed.socket.removeprefix("unix://"), folder / "docker.sock")
            (folder / "docker.sock").chmod(0o666)
            os.chown(folder, NOBODY, NOBODY)
            scene.place(engine=f"unix://{folder}/docker.sock")
            done = child(PROGRAM_AS_NOBODY, name)
            _, error = done.communicate(timeout=PATIENCE_S)
        assert done.returncode == 0, error

    def test_a_suite_of_asvs_own_is_measured_inside_and_sees_no_setting_of_ours(self, scene: Scene) -> None:
        scene.publish(night_of(day(13)))
        suite = scene.folder / "suite"
        (suite / "benchmarks").mkdir(parents=True)
        (suite / "benchmarks/__init__.py").touch()
        (suite / "benchmarks/inside.py").write_text(ASV_SUITE, encoding="utf-8")
        place = scene.place()
        scene.monkeypatch.setenv("STEPWATCH_DATABASE_URL", url_of(scene.database))
        place = replace(place, suite=replace(place.suite, kind="asv", folder=str(suite), only=None))
        nightly(place, "2024-02-13")
        found = ask(
            scene.database,
            "select benchmark, value, outcome from reporting.points join reporting.series"
            " using (series_id) order by 1",
        )
        assert found == [("inside.track_jax", 433.0, "ok"), ("inside.track_settings", 1.0, "ok")]
        assert scene.containers() == []

    def test_two_processes_measure_one_after_the_other(self, scene: Scene) -> None:
        labels = ("2024-02-16", "2024-02-17")
        scene.publish(*(night_of(dt.date.fromisoformat(each)) for each in labels))
        place = scene.place()
        for each in labels:
            opened_night(place, each)
        since = f"{time.time():.3f}"
        scene.monkeypatch.setenv("STEPWATCH_DATABASE_URL", url_of(scene.database))
        children = [child(PROGRAM, each) for each in labels]
        said = [each.communicate(timeout=2 * PATIENCE_S)[1] for each in children]
        assert [each.returncode for each in children] == [0, 0], said
        told = [each for each in events(scene, since) if each[0] in {"start", "die"}]
        assert [action for action, _ in told] == ["start", "die", "start", "die"]
        assert told[0][1] == told[1][1] != told[2][1] == told[3][1]


ASV_SUITE = """
import os
import jax

def track_jax():
    return float("".join(jax.__version__.split(".")))

def track_settings():
    return 1.0 + len([each for each in os.environ if each.startswith("STEPWATCH_D")])
"""

PROGRAM = """
import sys
from stepwatch import wiring
from stepwatch.jobs.bench import bench
with wiring.service() as place:
    bench(place, sys.argv[1])
"""
PROGRAM_AS_NOBODY = f"""
import os, sys
from pathlib import Path
from stepwatch import settings, wiring
from stepwatch.runners import containers
from stepwatch.runners.protocol import Process
configured = settings.load()
place = wiring.workplace(configured, None, say=print)
folder = Path(sys.argv[1])
docker = place.runner.docker
docker.lock, docker.folder = folder / "lock", folder / "images"
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
opened = docker.open_night(place.nights.night("2024-02-16"))
document = docker.bench(opened, Process(suite=place.suite, seed=1, out=folder / "runs" / "process-0.json"))
sys.exit(0 if document["benchmarks"][0]["status"] == "ok" else str(document))
"""


def child(program: str, *words: str) -> subprocess.Popen[str]:
    """A process of its own with the settings of this one."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=CLONE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def url_of(database: Database) -> str:
    return database.url.render_as_string(hide_password=False)


# --- what is left -----------------------------------------------------------------------------------------------------


class TestJanitor:
    def test_the_container_of_a_killed_owner_goes_and_that_of_a_living_one_stays(
        self, scene: Scene, hanging: str
    ) -> None:
        place = scene.place()
        resolve(place, hanging)
        scene.monkeypatch.setenv("STEPWATCH_DATABASE_URL", url_of(scene.database))
        measuring = child(PROGRAM, hanging)
        try:
            name = scene.measuring()["Name"].lstrip("/")
            assert janitor.tidy(place) == [], "its owner lives"
        finally:
            measuring.kill()
            measuring.communicate()
        assert [each["Name"].lstrip("/") for each in scene.containers()] == [name]
        other = replace(place.runner, docker=replace(docker_runner(place), machine="other"))
        assert name not in other.tidy([]), "it is no container of that machine"
        assert name in janitor.tidy(place)
        assert scene.containers() == []

    def test_images_that_nobody_needs_go_and_their_room_is_free_again(self, scene: Scene) -> None:
        numbers = (5, 10, 13, 14, 16, 17, 18)
        place = scene.place(keep_images=2)
        place = replace(place, control="2024-02-05")
        digests = {number: self.pulled(scene, place, number) for number in numbers}
        with scene.database.begin() as connection:
            ids = {number: self.night_id(connection, place, number) for number in numbers}
            open_incident(
                connection,
                machine="bench",
                source=place.source,
                direction=Direction.REGRESSION,
                after_id=ids[10],
                through_id=ids[13],
            )
        gone = {local_name(digests[number]) for number in (14, 16)}
        assert set(janitor.tidy(place)) == gone
        assert scene.images() == {local_name(digests[number]) for number in (5, 10, 13, 17, 18)}
        left = {digests[number] for number in (14, 16)} & scene.digests()
        assert not left, "without its name an image still takes its room"

    def test_the_first_measured_night_stays_where_no_control_is_named(self, scene: Scene) -> None:
        labels = ("2024-02-16", "2024-02-17")
        scene.publish(*(night_of(dt.date.fromisoformat(each)) for each in labels))
        place = scene.place(keep_images=0)
        for each in reversed(labels):  # the first by its date, however late it was measured
            measured(place, each)
        janitor.tidy(place)
        assert scene.images() == {local_name(scene.environment(labels[0])["digest"])}

    def test_a_name_that_a_person_gave_an_image_stays(self, scene: Scene) -> None:
        place = scene.place(keep_images=1)
        needed, other = (self.pulled(scene, place, number) for number in (18, 16))
        for digest, name in ((needed, "mine:needed"), (other, "mine:other")):
            assert scene.bed.docker("tag", local_name(digest), name).returncode == 0
        try:
            janitor.tidy(place)
            for name in ("mine:needed", "mine:other"):
                assert scene.bed.docker("image", "inspect", name).returncode == 0, name
        finally:
            scene.bed.docker("image", "rm", "mine:needed", "mine:other")

    def test_an_image_survives_the_engines_own_pruning(self, scene: Scene) -> None:
        place = scene.place()
        digest = self.pulled(scene, place, 16)
        assert scene.bed.docker("image", "prune", "--force").returncode == 0
        assert scene.images() == {local_name(digest)}

    def test_another_source_and_machine_on_the_same_engine_keeps_its_images(self, scene: Scene) -> None:
        scene.publish(night_of(day(16)), night_of(day(17)))
        place = scene.place(keep_images=0)
        measured(place, "2024-02-17")
        own = RegistryNights(**{**vars(place.nights), "name": "others"})
        other = replace(place, machine=Machine(name="other"), nights=own)
        measured(other, "2024-02-16")
        assert janitor.tidy(place) == []
        assert janitor.tidy(replace(place, machine=Machine(name="new"))) == []

    def test_an_error_on_the_way_back_leaves_tonight_as_it_is(self, scene: Scene) -> None:
        """The registry goes down between tonight's image and the gaps before it."""
        scene.publish(night_of(day(16)))
        place = scene.place()
        resolve(place, "2024-02-16")

        def down(_: Workplace) -> int:
            raise UnreachableError("the registry does not answer")

        scene.monkeypatch.setattr("stepwatch.jobs.nightly.catch_up", down)
        assert measure_night(place, "2024-02-16") is not None
        assert scene.said[-1] == (
            "the nights before 2024-02-16 were not looked at again: the registry does not answer"
        )

    def test_the_image_of_a_night_that_is_being_measured_stays(self, scene: Scene) -> None:
        """The janitor comes every hour, and between two processes no container holds the image."""
        scene.publish(night_of(day(4)), night_of(day(18)))
        place = scene.place(keep_images=1)
        place = replace(place, suite=replace(place.suite, processes=2))
        resolve(place, "2024-02-18")
        resolve(place, "2024-02-04")
        removed: list[str] = []

        def say(text: str) -> None:
            if text.endswith("process 2 of 2"):
                removed.extend(janitor.tidy(replace(place, say=lambda _: None)))

        bench(replace(place, say=say), "2024-02-04")
        assert removed == []

    def pulled(self, scene: Scene, place: Workplace, number: int) -> str:
        """The digest of a night's image that has been published, resolved and pulled."""
        scene.publish(night_of(day(number)))
        digest = opened_night(place, str(day(number))).environment.image_digest
        assert digest is not None
        return digest

    def night_id(self, connection: Any, place: Workplace, number: int) -> int:
        found = find_night(connection, place.source, str(day(number)))
        assert found is not None
        return found[0]


def test_credentials_go_to_the_registry_of_the_source_alone(scene: Scene) -> None:
    """Of images from before a move the registry may be another one, which asks for credentials too."""
    place = scene.place()
    runner = replace(docker_runner(place), username="me", password="secret")
    with FakeRegistry(wants="Basic", user=("somebody", "else")) as foreign:
        image = Image(
            reference=foreign.name("nightly-2024-02-05"),
            index=f"sha256:{'1' * 64}",
            digest=f"sha256:{'2' * 64}",
            platform="linux/amd64",
            platforms=("linux/amd64",),
        )
        at = dt.datetime(2024, 2, 5, tzinfo=dt.UTC)
        night = Night(source=place.source, label="2024-02-05", at=at, image=image)
        with contextlib.suppress(UnreachableError):
            runner.open_night(night)
        assert foreign.seen, "it was asked"
        assert basic("me", "secret") not in {each.authorization for each in foreign.seen}
