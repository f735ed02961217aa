"""Does a process of a suite leave a document or a reason, and nothing else behind?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worlds import pair_of

from stepwatch.core import documents
from stepwatch.core.model import Environment, Outcome, Suite
from stepwatch.core.requirements import Earlier, requirements_of
from stepwatch.runners import local
from stepwatch.runners.local import LocalRunner
from stepwatch.runners.protocol import Failure, Opened, Process, UnreachableError

# a suite whose worker does what `--only` says; everything it knows of its environment is in loaded.json beside it
WORKER = '''
import argparse, json, os, subprocess, sys, time
from pathlib import Path

parser = argparse.ArgumentParser()
for option in ("--size", "--seed", "--group", "--only"):
    parser.add_argument(option)
parser.add_argument("--brief", action="store_true")
asked = parser.parse_args()
here = Path(__file__).parent.parent
out = Path(os.environ["STEPWATCH_OUT"])
with (here / "log.txt").open("a") as log:
    log.write("begun\\n")


def write(*statuses):
    results = [
        {"name": f"b{i}", "version": "1", "params": {}, "status": status, "reason": reason, "metrics": []}
        for i, (status, reason) in enumerate(statuses)
    ]
    loaded = json.loads((here / "loaded.json").read_text())
    out.write_text(json.dumps({
        "loaded": loaded, "benchmarks": results, "warnings": [], "asked": vars(asked), "environment": dict(os.environ)
    }))


def leave_children():
    """One in this process group and one in a group of its own, neither of which ends by itself."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    children = [subprocess.Popen(sleep), subprocess.Popen(sleep, preexec_fn=os.setpgrp)]
    part = here / "children.part"
    part.write_text(" ".join(str(child.pid) for child in children))
    part.rename(here / "children.txt")


ENDED = ("failed", "the process ended while this was running")
if asked.only == "ok":
    write(("ok", None))
elif asked.only == "slow":
    time.sleep(0.2)
    write(("ok", None))
elif asked.only == "hang":
    write(("ok", None), ENDED, ("unreached", None))
    leave_children()
    time.sleep(600)
elif asked.only == "hang silently":
    print("about to hang", flush=True)
    time.sleep(600)
elif asked.only == "hang halfway":
    out.write_text('{"loaded": {')
    time.sleep(600)
elif asked.only == "leave":
    leave_children()
    write(("ok", None))
elif asked.only == "crash":
    write(("ok", None), ENDED)
    os.abort()
elif asked.only == "crash silently":
    print("what it said last", flush=True)
    os.abort()
elif asked.only == "crash halfway":
    out.write_text('{"loaded": {')
    os.abort()
elif asked.only == "refuse":
    sys.stderr.write("benchmarks.worker: no benchmark matches\\n")
    sys.exit(2)
with (here / "log.txt").open("a") as log:
    log.write("ended\\n")
'''


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    folder = tmp_path / "suite"
    (folder / "benchmarks").mkdir(parents=True)
    (folder / "benchmarks" / "__init__.py").touch()
    (folder / "benchmarks" / "worker.py").write_text(WORKER, encoding="utf-8")
    return folder


@pytest.fixture
def opened(tmp_path: Path, suite: Path) -> Opened:
    folder = tmp_path / "environment"
    folder.mkdir()
    loads(suite, {name: str(folder / name / "__init__.py") for name in ("jax", "jaxlib")})
    environment = Environment(pair=pair_of("0.10.2", "0.10.1"), base="cpython 3.11")
    return Opened(python=Path(sys.executable), folder=folder, environment=environment)


def loads(suite: Path, files: dict[str, str], **versions: str) -> None:
    versions = {"jax": "0.10.2", "jaxlib": "0.10.1"} | versions
    loaded = versions | {f"{name}_file": file for name, file in files.items()}
    (suite / "loaded.json").write_text(json.dumps(loaded), encoding="utf-8")


@pytest.fixture
def runner(tmp_path: Path) -> LocalRunner:
    return make_runner(tmp_path)


def make_runner(folder: Path) -> LocalRunner:
    return LocalRunner(
        environments=folder / "environments",
        python=("3.11", "3.12", "3.13"),
        requirements=("numpy==2.2.6", "scipy==1.15.3"),
        lock=folder / "machine.lock",
    )


def process(suite: Path, what: str, *, limit_s: float = 120, name: str = "process-0") -> Process:
    chosen = Suite(name="core", kind="stepwatch", folder=str(suite), group="core", time_limit_s=limit_s)
    return Process(suite=chosen, seed=7, out=suite / "runs" / f"{name}.json", only=what)


def children(suite: Path) -> list[int]:
    return [int(pid) for pid in (suite / "children.txt").read_text(encoding="utf-8").split()]


def living(pids: list[int]) -> list[int]:
    """Those of the processes that still run; one that nobody has waited for is dead."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state not in {"Z", "X"}:
            found.append(pid)
    return found


def wait_for(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def statuses(result: Any) -> list[str]:
    return [each["status"] for each in result["benchmarks"]]


class TestDocument:
    def test_it_is_read_and_kept(self, runner: LocalRunner, opened: Opened, suite: Path) -> None:
        asked = process(suite, "ok")
        result = runner.bench(opened, asked)
        assert not isinstance(result, Failure)
        assert result["asked"] == {
            "size": "smoke",
            "seed": "7",
            "group": "core",
            "only": "ok",
            "brief": False,
        }
        assert sorted(each.name for each in asked.out.parent.iterdir()) == ["process-0.json", "process-0.log"]
        assert runner.bench(opened, asked) == result
        assert (suite / "log.txt").read_text(encoding="utf-8") == "begun\nended\n", "it ran once"

    def test_those_after_the_first_are_brief(self, runner: LocalRunner, opened: Opened, suite: Path) -> None:
        result = runner.bench(opened, replace(process(suite, "ok"), first=False))
        assert not isinstance(result, Failure)
        assert result["asked"]["brief"] is True

    @pytest.mark.parametrize("left", ['{"loaded": {', '{"benchmarks": [{"status": "ok"}]}'])
    def test_what_a_killed_caller_left_is_never_read(
        self, runner: LocalRunner, opened: Opened, suite: Path, left: str
    ) -> None:
        asked = process(suite, "ok")
        asked.out.parent.mkdir()
        asked.out.with_suffix(".part").write_text(left, encoding="utf-8")
        silent = runner.bench(opened, process(suite, "crash silently"))
        assert isinstance(silent, Failure), "it has measured nothing itself"
        result = runner.bench(opened, asked)
        assert not isinstance(result, Failure)
        assert result["asked"]["only"] == "ok"

    def test_one_process_at_a_time_measures(self, tmp_path: Path, opened: Opened, suite: Path) -> None:
        runners = [make_runner(tmp_path) for _ in range(3)]
        with ThreadPoolExecutor(3) as pool:
            results = [
                pool.submit(each.bench, opened, process(suite, "slow", name=f"process-{i}"))
                for i, each in enumerate(runners)
            ]
            assert [statuses(each.result()) for each in results] == [["ok"]] * 3
        assert (suite / "log.txt").read_text(encoding="utf-8").split() == ["begun", "ended"] * 3

    def test_nothing_private_reaches_a_benchmark(
        self, runner: LocalRunner, opened: Opened, suite: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        private = {
            "STEPWATCH_DATABASE_URL": "postgresql://me:secret@host/x",
            "STEPWATCH_TRANSPORTS__SLACK__TOKEN": "secret",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "secret",
            "_AIRFLOW_PROCESS_CONTEXT": "secret",
            "AIRFLOW_HOME": "secret",
            "PYTHONHOME": "/secret",
            "PYTHONDONTWRITEBYTECODE": "1",
            "VIRTUAL_ENV": "secret",
        }
        with monkeypatch.context() as patch:
            for name, value in private.items():
                patch.setenv(name, value)
            patch.setenv("PYTHONPATH", "/secret")
            patch.setenv("XLA_FLAGS", "--seen")
            result = runner.bench(opened, process(suite, "ok"))
        assert not isinstance(result, Failure)
        seen = result["environment"]
        assert not set(private) & set(seen)
        assert "secret" not in json.dumps(seen)
        assert seen["XLA_FLAGS"] == "--seen"
        assert {seen[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")} == {
            "1"
        }
        assert [each for each in seen if each.startswith("STEPWATCH_")] == ["STEPWATCH_OUT"]


class TestEnd:
    def test_a_time_limit_ends_all_and_keeps_what_was_measured(
        self, runner: LocalRunner, opened: Opened, suite: Path
    ) -> None:
        result = runner.bench(opened, process(suite, "hang", limit_s=4))
        assert not isinstance(result, Failure)
        assert statuses(result) == ["ok", "timed_out", "unreached"]
        assert result["benchmarks"][1]["reason"] == "not ended after 4 s"
        assert list(documents.failures([result]).values()) == [(Outcome.TIMED_OUT, "not ended after 4 s")]
        assert living(children(suite)) == []

    @pytest.mark.parametrize("what", ["hang silently", "hang halfway"])
    def test_a_time_limit_without_a_document_is_timed_out(
        self, runner: LocalRunner, opened: Opened, suite: Path, what: str
    ) -> None:
        result = runner.bench(opened, process(suite, what, limit_s=2))
        assert isinstance(result, Failure)
        assert result.outcome is Outcome.TIMED_OUT
        assert result.reason.startswith("not ended after 2 s: ")
        assert not process(suite, what).out.exists()

    def test_what_a_process_leaves_behind_ends_with_it(
        self, runner: LocalRunner, opened: Opened, suite: Path
    ) -> None:
        assert statuses(runner.bench(opened, process(suite, "leave"))) == ["ok"]
        assert living(children(suite)) == []

    def test_cancel_from_elsewhere_ends_all_and_lets_nothing_start(
        self, runner: LocalRunner, opened: Opened, suite: Path
    ) -> None:
        results: list[object] = []
        thread = threading.Thread(target=lambda: results.append(runner.bench(opened, process(suite, "hang"))))
        thread.start()
        wait_for((suite / "children.txt").exists)
        left = children(suite)
        assert living(left) == left
        runner.cancel()
        thread.join()
        again = runner.bench(opened, process(suite, "ok"))
        assert results == [Failure(outcome=Outcome.CANCELLED, reason="cancelled while it ran")]
        assert again == Failure(outcome=Outcome.CANCELLED, reason="cancelled before it was started")
        assert living(left) == []
        assert not process(suite, "hang").out.exists(), "what was cancelled is measured again"

    def test_a_crash_keeps_what_was_measured(self, runner: LocalRunner, opened: Opened, suite: Path) -> None:
        result = runner.bench(opened, process(suite, "crash"))
        assert not isinstance(result, Failure)
        assert statuses(result) == ["ok", "failed"]

    def test_a_crash_without_a_document_says_its_last_line(
        self, runner: LocalRunner, opened: Opened, suite: Path
    ) -> None:
        result = runner.bench(opened, process(suite, "crash silently"))
        assert isinstance(result, Failure)
        assert (result.outcome, result.reason) == (
            Outcome.BENCHMARK_FAILED,
            "signal SIGABRT: what it said last",
        )
        assert "what it said last" in result.log

    def test_half_a_document_is_none(self, runner: LocalRunner, opened: Opened, suite: Path) -> None:
        result = runner.bench(opened, process(suite, "crash halfway"))
        assert isinstance(result, Failure)
        assert result.outcome is Outcome.BENCHMARK_FAILED
        assert not process(suite, "crash halfway").out.exists(), "it would be read again for ever"

    def test_a_worker_that_refuses_says_why(self, runner: LocalRunner, opened: Opened, suite: Path) -> None:
        result = runner.bench(opened, process(suite, "refuse"))
        assert isinstance(result, Failure)
        assert result.reason == "exit status 2: benchmarks.worker: no benchmark matches"


class TestStale:
    @pytest.mark.parametrize(
        ("versions", "sentence"),
        [
            ({"jax": "0.9"}, "jax 0.9 was loaded where 0.10.2 was asked for"),
            ({"jaxlib": "0.10.2"}, "jaxlib 0.10.2 was loaded where 0.10.1 was asked for"),
        ],
    )
    def test_another_version(
        self, runner: LocalRunner, opened: Opened, suite: Path, versions: dict[str, str], sentence: str
    ) -> None:
        files = {name: str(opened.folder / name) for name in ("jax", "jaxlib")}
        loads(suite, files, **versions)
        result = runner.bench(opened, process(suite, "ok"))
        assert result == Failure(outcome=Outcome.STALE_BUILD, reason=sentence)

    @pytest.mark.parametrize("name", ["jax", "jaxlib"])
    def test_a_file_from_elsewhere(
        self, runner: LocalRunner, opened: Opened, suite: Path, tmp_path: Path, name: str
    ) -> None:
        files = {each: str(opened.folder / each) for each in ("jax", "jaxlib")}
        elsewhere = str(tmp_path / "environment-2" / name)
        loads(suite, files | {name: elsewhere})
        result = runner.bench(opened, process(suite, "ok"))
        assert isinstance(result, Failure)
        assert result.outcome is Outcome.STALE_BUILD
        assert result.reason == f"{name} was loaded from outside its environment: {elsewhere}"


NUMPY_1 = Earlier(through="0.4.25", requirements=("numpy==1.26.4",))
OLDER = Earlier(through="0.4.9", requirements=("numpy==1.22.0",))
NUMPY_2 = ("numpy==2.2.6",)


class TestRequirements:
    @pytest.mark.parametrize(
        ("jax", "jaxlib", "expected"),
        [
            ("0.4.25", "0.4.25", NUMPY_1.requirements),
            ("0.4.26", "0.4.25", NUMPY_1.requirements),
            ("0.4.26", "0.4.26", NUMPY_2),
            ("0.4.9", "0.4.9", OLDER.requirements),
            ("0.4.10", "0.4.10", NUMPY_1.requirements),
            ("0.10.2", "0.10.2", NUMPY_2),
        ],
    )
    def test_the_set_that_ends_first_and_reaches_the_older_library(
        self, jax: str, jaxlib: str, expected: tuple[str, ...]
    ) -> None:
        for earlier in ([NUMPY_1, OLDER], [OLDER, NUMPY_1]):
            assert requirements_of(pair_of(jax, jaxlib), NUMPY_2, earlier) == expected

    def test_without_earlier_sets_there_is_one(self) -> None:
        assert requirements_of(pair_of("0.4.9", "0.4.9"), NUMPY_2, ()) == NUMPY_2


class Installer:
    """Stands in for uv: makes what it is asked to, and refuses what it is told to."""

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.installs: list[list[str]] = []

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        words = list(arguments)
        out, err = "", ""
        if words[0] == "venv":
            Path(words[-1]).mkdir(parents=True)
        elif words[:2] == ["python", "find"]:
            out = "3.11.2" if "--show-version" in words else sys.executable
        elif words[1] == "freeze":
            out = "\n".join(self.installs[-1])
        elif self.installs and self.refusal:
            err = self.refusal
        else:
            self.installs.append(words[words.index("--python") + 2 :])
        return subprocess.CompletedProcess(words, int(bool(err)), out, err)


class TestOptional:
    PAIR = pair_of("0.4.30", "0.4.30")
    NEEDED = ("jax==0.4.30", "jaxlib==0.4.30", "numpy==2.2.6", "scipy==1.15.3")

    def opened(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installer: Installer, *optional: str
    ) -> tuple[Opened | Failure, Any]:
        monkeypatch.setattr(LocalRunner, "_uv", installer)
        runner = make_runner(tmp_path)
        runner.optional = optional
        result = runner.open(self.PAIR)
        assert isinstance(result, Opened)
        return result, json.loads((result.folder / "stepwatch.json").read_text(encoding="utf-8"))

    def test_it_is_installed_beside_exactly_what_is_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        installer = Installer()
        opened, marker = self.opened(tmp_path, monkeypatch, installer, "xlb==0.3.1", "warp-lang==1.10.1")
        assert installer.installs == [
            [*self.NEEDED],
            [*self.NEEDED, "xlb==0.3.1", "warp-lang==1.10.1"],
        ]
        assert opened.environment.freeze == (*self.NEEDED, "xlb==0.3.1", "warp-lang==1.10.1")
        assert marker["left_out"] is None

    def test_it_is_left_out_with_the_reason_where_it_does_not_fit(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        installer = Installer(
            "  x No solution found: Because xlb==0.3.1 depends on jax>=0.8.0 and you require x"
        )
        opened, marker = self.opened(tmp_path, monkeypatch, installer, "xlb==0.3.1")
        assert opened.environment.freeze == self.NEEDED
        assert marker["left_out"] == "xlb==0.3.1 depends on jax>=0.8.0"

    def test_it_is_part_of_the_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        without, _ = self.opened(tmp_path, monkeypatch, Installer())
        with_it, _ = self.opened(tmp_path, monkeypatch, Installer(), "xlb==0.3.1")
        again, _ = self.opened(tmp_path, monkeypatch, Installer(), "xlb==0.3.1")
        assert without.folder != with_it.folder == again.folder

    def test_an_index_that_does_not_answer_leaves_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(UnreachableError):
            self.opened(tmp_path, monkeypatch, Installer("error sending request for url"), "xlb==0.3.1")
        assert list((tmp_path / "environments").glob("*/")) == []

    def test_cancelled_in_between_it_is_made_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runner = make_runner(tmp_path)
        runner.optional = ("xlb==0.3.1",)
        runner._cancelled = True
        monkeypatch.setattr(LocalRunner, "_uv", Installer("killed"))
        result = runner.open(self.PAIR)
        assert isinstance(result, Failure)
        assert result.outcome is Outcome.CANCELLED
        assert list((tmp_path / "environments").glob("*/stepwatch.json")) == []

    def test_earlier_requirements_are_installed_and_part_of_the_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        newest, _ = self.opened(tmp_path, monkeypatch, Installer())
        installer = Installer()
        monkeypatch.setattr(LocalRunner, "_uv", installer)
        runner = make_runner(tmp_path)
        runner.earlier = (Earlier(through="0.4.30", requirements=("numpy==1.26.4",)),)
        opened = runner.open(self.PAIR)
        assert installer.installs == [["jax==0.4.30", "jaxlib==0.4.30", "numpy==1.26.4"]]
        assert isinstance(opened, Opened)
        assert opened.folder != newest.folder

    @pytest.mark.install
    @pytest.mark.parametrize(
        ("optional", "left_out"),
        [
            ("packaging==24.2", None),
            ("numpy==2.2.5", "you require numpy==2.2.6 and numpy==2.2.5"),
            ("xlb==0.3.1", "xlb>=0.3.1 depends on jax>=0.8.0"),
        ],
    )
    def test_uv_moves_nothing(self, tmp_path: Path, optional: str, left_out: str | None) -> None:
        plain = make_runner(tmp_path).open(self.PAIR)
        runner = make_runner(tmp_path)
        runner.optional = (optional,)
        opened = runner.open(self.PAIR)
        assert isinstance(plain, Opened)
        assert isinstance(opened, Opened)
        added = () if left_out else (optional,)
        assert set(opened.environment.freeze) == {*plain.environment.freeze, *added}
        marker = json.loads((opened.folder / "stepwatch.json").read_text(encoding="utf-8"))
        assert marker["left_out"] == left_out


class TestOpen:
    def test_without_an_interpreter(self, tmp_path: Path) -> None:
        runner = make_runner(tmp_path)
        runner.python = ("3.98", "3.99")
        assert runner.open(pair_of("0.4.30", "0.4.30")) == Failure(
            outcome=Outcome.BUILD_FAILED, reason="no Python 3.98, 3.99 is on this machine"
        )

    def test_an_index_that_does_not_answer_is_no_verdict_about_the_pair(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for variable in [each for each in os.environ if each.startswith(("UV_", "PIP_"))]:
            monkeypatch.delenv(variable)
        monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:1/simple")
        monkeypatch.setenv("UV_HTTP_RETRIES", "0")
        with pytest.raises(UnreachableError, match="the package index does not answer"):
            make_runner(tmp_path).open(pair_of("0.4.30", "0.4.30"))
        assert list((tmp_path / "environments").glob("*/stepwatch.json")) == []

    @pytest.mark.install
    def test_a_pair_that_can_not_be_installed_is_one_sentence(self, runner: LocalRunner) -> None:
        result = runner.open(pair_of("0.4.31", "0.4.33"))
        assert isinstance(result, Failure)
        assert result.outcome is Outcome.BUILD_FAILED
        assert result.reason == "jax==0.4.31 depends on jaxlib>=0.4.30,<=0.4.31"
        assert list(runner.environments.glob("*/")) == []

    @pytest.mark.install
    def test_two_at_once_make_one_and_what_was_interrupted_is_made_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        installs: list[Path] = []
        install = local.LocalRunner._install

        def counted(self: LocalRunner, folder: Path, interpreter: Path, asked: list[str]) -> Failure | None:
            installs.append(folder)
            return install(self, folder, interpreter, asked)

        monkeypatch.setattr(local.LocalRunner, "_install", counted)
        pair = pair_of("0.4.30", "0.4.30")
        with ThreadPoolExecutor(2) as pool:
            first, second = (
                each.result() for each in [pool.submit(make_runner(tmp_path).open, pair) for _ in range(2)]
            )
        assert isinstance(first, Opened)
        assert first == second
        assert len(installs) == 1
        assert {"jax==0.4.30", "jaxlib==0.4.30", "numpy==2.2.6"} <= set(first.environment.freeze)

        (first.folder / "stepwatch.json").unlink()  # the marker is written last
        (first.folder / "half").touch()
        assert make_runner(tmp_path).open(pair) == first
        assert len(installs) == 2
        assert not (first.folder / "half").exists()
