"""Does any folder of asv benchmarks run in an environment, and is what asv finds told as it was?"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
import subprocess
import tempfile
import textwrap
import threading
import time
import venv
from pathlib import Path
from typing import Any

import pytest
from asv.util import TIMEOUT_RETCODE

from stepwatch.core import documents
from stepwatch.core.model import CommitPair, Environment, Outcome, Revision, Suite
from stepwatch.jobs.measure import selection
from stepwatch.runners import asv_cases, asv_suite, sessions
from stepwatch.runners.local import LocalRunner
from stepwatch.runners.protocol import Failure, Opened, Process

JAX, JAXLIB = "9.9.9", "9.9.8"

KINDS = """
import importlib.util, os, signal, sys, time

from asv_runner.benchmarks.mark import SkipNotImplemented, skip_for_params

class Quick:
    repeat, number, warmup_time, rounds = 2, 3, 0, 2

class Sums(Quick):
    version = "7"
    params = [[10, 20], ["f32", (1, 2)]]
    param_names = ["edge", "kind"]
    def time_sum(self, edge, kind):
        sum(range(edge))
    @skip_for_params([(10, "f32"), (10, (1, 2)), (20, (1, 2))])
    def time_some(self, edge, kind):
        pass

class Raw(Quick):
    number = 1
    def timeraw_one(self):
        return "1 + 1"

class Rates:
    unit, better = "MLUPS", "higher"
    def track_mlups(self):
        return 580.5
    def track_samples(self):
        return {"samples": [1.5, 2.5, 3.5], "number": 4}

def track_size():
    return 7
track_size.unit = "ops"
track_size.direction = "higher"

def track_names_of_ours():
    return 1 + (importlib.util.find_spec("releases") is not None)

def track_odd():
    return True
track_odd.better = "sideways"

class Cached:
    def setup_cache(self):
        return [5, 6]
    def track_first(self, cache):
        return cache[0]
    def track_last(self, cache):
        return cache[-1]

class Uncached:
    def setup_cache(self):
        raise ValueError("no cache today")
    def track_one(self, cache):
        return 1
    def track_two(self, cache):
        return 2

def peakmem_list():
    return [0] * 1000

class Refusing:
    def setup(self):
        raise NotImplementedError("needs a GPU")
    def track_it(self):
        return 1

def track_refuses():
    raise SkipNotImplemented("not with this version")

def track_not_implemented():
    raise NotImplementedError("half done")

def track_nan():
    print("a line on stdout")
    return float("nan")

def track_none():
    return None

def track_text():
    return "many"

def track_table():
    return {"a": 1}

def track_infinite():
    return float("inf")

def track_zero():
    return 0

def track_raises():
    print("printed before")
    error = ValueError("first line\\nsecond line")
    error.add_note("For simplicity, some frames were left out.")
    raise error

def track_exits():
    print("printed before it went")
    sys.stdout.flush()
    os._exit(3)

def track_leaves():
    os._exit(0)

def track_killed():
    os.kill(os.getpid(), signal.SIGSEGV)

class Sometimes:
    params = [1, 2]
    def track_it(self, which):
        if which == 1:
            raise ValueError("not one")
        return which

def track_hangs():
    print("hanging")
    sys.stdout.flush()
    time.sleep(600)
track_hangs.timeout = 1
"""

HANGING = """
import os, subprocess, sys, time
from pathlib import Path

def track_before():
    return 3

def track_middle():
    note = Path(os.environ["PIDS"])
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], process_group=0)
    note.with_name("pids.part").write_text(f"{os.getpid()} {other.pid}")
    note.with_name("pids.part").replace(note)
    time.sleep(600)

def track_then():
    return 4
"""


def make_environment(folder: Path, *, jax: str = JAX) -> Opened:
    """An environment with a jax that only says what it is, and without asv_runner."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    for name, version in (("jax", jax), ("jaxlib", JAXLIB)):
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text(
            f"__version__ = {version!r}\n"
            "class Device:\n    platform, device_kind = 'cpu', 'cpu'\n"
            "def devices():\n    return [Device()]\n"
        )
    at = dt.datetime(2026, 5, 11, tzinfo=dt.UTC)
    pair = CommitPair(
        jax=Revision(repository="jax", ref=JAX, committed_at=at),
        xla=Revision(repository="xla", ref=JAXLIB, committed_at=at),
    )
    environment = Environment(pair=pair, base="cpython")
    return Opened(python=folder / "bin" / "python", folder=folder, environment=environment)


def make_suite(folder: Path, *, only: str | None = None, **modules: str) -> Suite:
    (folder / "bench").mkdir(parents=True)
    (folder / "bench" / "__init__.py").touch()
    for name, text in modules.items():
        (folder / "bench" / f"{name}.py").write_text(textwrap.dedent(text))
    # with comments, a repository and a matrix, as they are found; none of the latter counts here
    (folder / "asv.conf.json").write_text(
        '{\n// ours\n"version": 1, "repo": "..", "matrix": {"req": {"numpy": []}}, "benchmark_dir": "bench"}'
    )
    return Suite(name="mine", kind="asv", folder=str(folder), group="core", only=only, time_limit_s=300)


def make_runner(folder: Path) -> LocalRunner:
    return LocalRunner(environments=folder / "made", python=(), requirements=(), lock=folder / "machine.lock")


def process(suite: Suite, out: Path, only: str | None = None) -> Process:
    return Process(suite=suite, seed=11, out=out, only=only)


def entries(document: Any) -> dict[str, dict[str, Any]]:
    """The entries of a document by `name(values)`."""
    assert not isinstance(document, Failure), document
    return {
        f"{each['name']}({', '.join(map(str, each['params'].values()))})": each
        for each in document["benchmarks"]
    }


def blocks(entry: dict[str, Any]) -> list[float]:
    (metric,) = entry["metrics"]
    return list(metric["blocks"])


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return make_environment(tmp_path_factory.mktemp("environments") / "one")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, opened: Opened) -> tuple[Any, str]:
    """The document and the log of one pass over every kind of benchmark."""
    folder = tmp_path_factory.mktemp("run")
    suite = make_suite(folder / "suite", kinds=KINDS)
    before = {path for path in Path(suite.folder).rglob("*") if path.name != "__pycache__"}
    out = folder / "runs" / "process-0.json"
    document = make_runner(folder).bench(opened, process(suite, out))
    after = {path for path in Path(suite.folder).rglob("*") if "__pycache__" not in path.parts}
    assert after == before, "asv has left something in the user's folder"
    assert [path.name for path in sorted(out.parent.iterdir())] == ["process-0.json", "process-0.log"]
    return document, out.with_suffix(".log").read_text()


@pytest.fixture(scope="module")
def found(run: tuple[Any, str]) -> dict[str, dict[str, Any]]:
    return entries(run[0])


class TestOnePass:
    def test_the_document(self, run: tuple[Any, str], opened: Opened) -> None:
        document, _ = run
        assert (document["protocol"], document["suite"], document["size"]) == ("asv-0.6.6", "bench", "smoke")
        assert (document["document"], document["seed"]) == (documents.DOCUMENT, 11)
        assert document["loaded"]["jax"] == JAX
        assert document["loaded"]["jaxlib"] == JAXLIB
        assert document["loaded"]["numpy"] is None
        assert Path(document["loaded"]["jax_file"]).is_relative_to(opened.folder)
        assert document["device"] == {"platform": "cpu", "kind": "cpu", "count": 1}
        assert set(document["settings"]["threads"].values()) == {"1"}
        started, finished = (
            dt.datetime.fromisoformat(document[key]) for key in ("started_at", "finished_at")
        )
        assert started.tzinfo
        assert started <= finished

    def test_samples_of_all_rounds_are_kept(self, found: dict[str, dict[str, Any]]) -> None:
        for edge, kind in itertools.product((10, 20), ("f32", [1, 2])):
            entry = found[f"kinds.Sums.time_sum({edge}, {kind})"]
            assert (entry["status"], entry["reason"], entry["version"]) == ("ok", None, "7")
            assert entry["params"] == {"edge": edge, "kind": kind}
            (metric,) = entry["metrics"]
            assert (metric["metric"], metric["unit"], metric["better"]) == ("time", "s", "lower")
            assert metric["judged"] is True
            assert len(metric["blocks"]) == 4
            assert all(block > 0 for block in metric["blocks"])
        assert len(blocks(found["kinds.Raw.timeraw_one()"])) == 4

    @pytest.mark.parametrize(
        ("title", "expected"),
        [
            ("kinds.Rates.track_mlups()", ("track", "MLUPS", "higher", [580.5])),
            ("kinds.Rates.track_samples()", ("track", "MLUPS", "higher", [1.5, 2.5, 3.5])),
            ("kinds.track_size()", ("track", "ops", "higher", [7.0])),
            ("kinds.track_names_of_ours()", ("track", "unit", "lower", [1.0])),
            ("kinds.track_odd()", ("track", "unit", "lower", [1.0])),
            ("kinds.Cached.track_first()", ("track", "unit", "lower", [5.0])),
            ("kinds.Cached.track_last()", ("track", "unit", "lower", [6.0])),
            ("kinds.Sometimes.track_it(2)", ("track", "unit", "lower", [2.0])),
        ],
    )
    def test_values(self, title: str, expected: tuple[Any, ...], found: dict[str, dict[str, Any]]) -> None:
        (metric,) = found[title]["metrics"]
        assert (metric["metric"], metric["unit"], metric["better"], metric["blocks"]) == expected

    def test_memory(self, found: dict[str, dict[str, Any]]) -> None:
        (metric,) = found["kinds.peakmem_list()"]["metrics"]
        assert (metric["metric"], metric["unit"], metric["better"]) == ("peakmem", "bytes", "lower")
        assert metric["blocks"][0] > 1_000_000

    @pytest.mark.parametrize(
        ("title", "status", "reason"),
        [
            ("Refusing.track_it()", "skipped", "NotImplementedError('needs a GPU')"),
            ("track_refuses()", "skipped", "SkipNotImplemented('not with this version')"),
            ("Sums.time_some(10, f32)", "skipped", "left out by skip_params"),
            ("track_nan()", "failed", "returned NaN"),
            ("track_none()", "failed", "returned None, not a number"),
            ("track_text()", "failed", "returned str, not a number"),
            ("track_table()", "failed", "returned dict, not a number"),
            ("track_infinite()", "failed", "returned inf, not a number above 0"),
            ("track_zero()", "failed", "returned 0, not a number above 0"),
            ("track_raises()", "failed", "ValueError: first line"),
            ("track_not_implemented()", "failed", "NotImplementedError: half done"),
            ("track_exits()", "failed", "exit status 3: printed before it went"),
            ("track_leaves()", "failed", "ended without a result"),
            ("track_killed()", "failed", "signal SIGSEGV"),
            ("track_hangs()", "timed_out", "not ended after 1 s"),
            ("Uncached.track_one()", "failed", "setup_cache: ValueError: no cache today"),
            ("Uncached.track_two()", "failed", "setup_cache: ValueError: no cache today"),
            ("Sometimes.track_it(1)", "failed", "ValueError: not one"),
        ],
    )
    def test_what_did_not_work(
        self, title: str, status: str, reason: str, found: dict[str, dict[str, Any]]
    ) -> None:
        entry = found[f"kinds.{title}"]
        assert (entry["status"], entry["reason"], entry["metrics"]) == (status, reason, [])

    def test_what_is_skipped_for_some_is_measured_for_others(self, found: dict[str, dict[str, Any]]) -> None:
        statuses = [entry["status"] for title, entry in found.items() if "time_some" in title]
        assert sorted(statuses) == ["ok", "skipped", "skipped", "skipped"]

    def test_output_is_kept_beside_the_document(self, run: tuple[Any, str]) -> None:
        log = run[1]
        assert "run kinds.track_raises(): exit status 1\nprinted before\nTraceback" in log
        assert "second line\nFor simplicity, some frames were left out." in log
        assert "run kinds.track_hangs(): exit status -256\nhanging" in log

    def test_core_reads_it(self, run: tuple[Any, str]) -> None:
        known = documents.measurements([run[0], run[0]])
        outcomes = {each.benchmark.name: each.outcome for each in known}
        assert outcomes["kinds.Rates.track_mlups"] is Outcome.OK
        failed = {name: outcome for (name, _), (outcome, _) in documents.failures([run[0]]).items()}
        assert failed["kinds.track_hangs"] is Outcome.TIMED_OUT
        assert failed["kinds.track_nan"] is Outcome.BENCHMARK_FAILED
        assert failed["kinds.Refusing.track_it"] is Outcome.SKIPPED

    def test_each_is_selected_by_the_jobs_alone(self, run: tuple[Any, str]) -> None:
        benchmarks = [each.benchmark for each in documents.measurements([run[0]])]
        listed = json.loads(json.dumps([each.params for each in benchmarks]))
        titles = {
            f"{each.name}({', '.join(f'{key}={value}' for key, value in params.items())})"
            for each, params in zip(benchmarks, listed, strict=True)
        }
        out_of = [[title for title in titles if re.search(selection(each), title)] for each in benchmarks]
        assert all(len(chosen) == 1 for chosen in out_of)
        assert len(titles) == len(benchmarks) > 10


def test_only_some_and_the_same_series_in_another_environment(run: tuple[Any, str], tmp_path: Path) -> None:
    other = make_environment(tmp_path / "another place" / "two")
    suite = make_suite(tmp_path / "other suite", kinds=KINDS, only="nothing like this")
    only = r"Sums\.time_sum\(edge=20, |track_mlups\(\)$|Sometimes.*which=1|Sometimes.*param1=2"
    document = make_runner(tmp_path).bench(other, process(suite, tmp_path / "out.json", only))
    chosen = entries(document)
    assert set(chosen) == {
        "kinds.Sums.time_sum(20, f32)",
        "kinds.Sums.time_sum(20, [1, 2])",
        "kinds.Rates.track_mlups()",
        "kinds.Sometimes.track_it(2)",
    }
    assert not isinstance(document, Failure)
    before = {str(each.benchmark): each.benchmark for each in documents.measurements([run[0]])}
    for each in documents.measurements([document]):
        assert str(each.benchmark) in before
    assert document["protocol"] == run[0]["protocol"]


@pytest.mark.parametrize(
    ("text", "only", "reason"),
    [
        ("def track_one(:\n    pass\n", None, "the suite can't be read: SyntaxError: invalid syntax (odd.py, line 1)"),
        ("import nowhere_to_be_found\n", None, "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("def track_one():\n    return 1\n", "two", "asv_suite: no benchmark matches 'two'"),
        ("def track_one():\n    return 1\n", "(", "--only '(' is no regular expression"),
        ("ONE = 1\n", None, "asv_suite: the suite has no benchmark"),
    ],
)  # fmt: skip
def test_a_suite_that_can_not_be_run_is_one_sentence(
    text: str, only: str | None, reason: str, opened: Opened, tmp_path: Path
) -> None:
    suite = make_suite(tmp_path / "suite", odd=text, only=only)
    failure = make_runner(tmp_path).bench(opened, process(suite, tmp_path / "out.json"))
    assert isinstance(failure, Failure)
    assert failure.outcome is Outcome.BENCHMARK_FAILED
    assert failure.reason.startswith("exit status 2: ")
    assert reason in failure.reason
    assert "\n" not in failure.reason
    assert not (tmp_path / "out.json").exists()


def test_jax_that_can_not_be_used_or_is_another(tmp_path: Path) -> None:
    suite = make_suite(tmp_path / "suite", one="def track_one():\n    return 1\n")
    other = make_environment(tmp_path / "other", jax="1.2.3")
    stale = make_runner(tmp_path).bench(other, process(suite, tmp_path / "stale.json"))
    assert isinstance(stale, Failure)
    assert stale.outcome is Outcome.STALE_BUILD
    (package,) = other.folder.glob("lib/python3*/site-packages/jax/__init__.py")
    package.write_text("raise ImportError('libxla is torn')")
    broken = make_runner(tmp_path).bench(other, process(suite, tmp_path / "broken.json"))
    assert isinstance(broken, Failure)
    assert broken.reason == "exit status 2: asv_suite: jax can't be used: ImportError: libxla is torn"
    assert "Traceback" in broken.log


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in {"Z", "X"}
    except OSError:
        return False


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a benchmark that hangs writes its own process and the one that it has started."""
    monkeypatch.setenv("PIDS", str(tmp_path / "pids"))
    return tmp_path / "pids"


def read_pids(note: Path) -> list[int]:
    given_up = time.monotonic() + 120
    while not note.exists():
        assert time.monotonic() < given_up, "the benchmark has not started"
        time.sleep(0.02)
    return [int(pid) for pid in note.read_text().split()]


def test_the_time_limit_ends_every_process(
    opened: Opened, tmp_path: Path, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = make_suite(tmp_path / "suite", slow=HANGING)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    wait = subprocess.Popen.wait
    seen: list[int] = []

    def wait_until_it_hangs(running: subprocess.Popen[str], timeout: float | None = None) -> int:
        if timeout != suite.time_limit_s:
            return wait(running, timeout)
        seen.extend([running.pid, *read_pids(note)])
        assert set(seen) <= set(sessions.members(running.pid))
        assert list((tmp_path / "temporary").glob("*/*"))
        raise subprocess.TimeoutExpired(running.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", wait_until_it_hangs)
    document = make_runner(tmp_path).bench(opened, process(suite, tmp_path / "out.json"))
    assert len(seen) == 3
    assert not [pid for pid in seen if is_alive(pid)]
    assert not list((tmp_path / "temporary").iterdir()), "what asv had made stays behind"
    found = entries(document)
    assert blocks(found["slow.track_before()"]) == [3.0]
    middle, then = found["slow.track_middle()"], found["slow.track_then()"]
    assert (middle["status"], middle["reason"]) == ("timed_out", "not ended after 300 s")
    assert then["status"] == "unreached"


def test_cancel_ends_every_process(opened: Opened, tmp_path: Path, note: Path) -> None:
    suite = make_suite(tmp_path / "suite", slow=HANGING)
    runner = make_runner(tmp_path)
    results: list[Any] = []
    bench = threading.Thread(
        target=lambda: results.append(runner.bench(opened, process(suite, tmp_path / "out.json")))
    )
    bench.start()
    seen = read_pids(note)
    assert all(map(is_alive, seen))
    runner.cancel()
    bench.join()
    assert results[0].outcome is Outcome.CANCELLED
    assert not [pid for pid in seen if is_alive(pid)]


class TestFolders:
    def test_a_configuration_comes_first(self, tmp_path: Path) -> None:
        make_suite(tmp_path / "suite")
        (tmp_path / "suite" / "__init__.py").touch()
        configuration = asv_suite.read_configuration(tmp_path / "suite")
        assert not isinstance(configuration, str)
        assert configuration.benchmark_dir == str(tmp_path / "suite" / "bench")
        assert configuration.repo == "none"
        assert configuration.default_benchmark_timeout == 60

    @pytest.mark.parametrize("below", [".", "benchmarks"])
    def test_a_package_alone(self, below: str, tmp_path: Path) -> None:
        (tmp_path / below).mkdir(exist_ok=True)
        (tmp_path / below / "__init__.py").touch()
        configuration = asv_suite.read_configuration(tmp_path)
        assert not isinstance(configuration, str)
        assert Path(configuration.benchmark_dir) == tmp_path / below

    def test_nothing_and_nonsense(self, tmp_path: Path) -> None:
        reason = asv_suite.read_configuration(tmp_path)
        assert isinstance(reason, str)
        assert reason.startswith("neither asv.conf.json nor a package of benchmarks")
        (tmp_path / "asv.conf.json").write_text("{")
        reason = asv_suite.read_configuration(tmp_path)
        assert isinstance(reason, str)
        assert reason.startswith("asv.conf.json can't be read: ")
        assert "\n" not in reason


class TestCases:
    @staticmethod
    def values(*axis: str) -> list[Any]:
        (benchmark,) = [{
            "name": "a.track", "params": [list(axis)], "param_names": ["x"], "version": 3,
            "type": "track", "unit": "unit",
        }]  # fmt: skip
        return [case.params["x"] for case in asv_cases.find(benchmark)]

    def test_parameters_are_plain_values(self) -> None:
        assert self.values("'f32'", "1", "2.5", "None", "True", "(1, 'a')", "{'k': [1]}") == [
            "f32", 1, 2.5, None, True, [1, "a"], {"k": [1]},
        ]  # fmt: skip

    def test_what_is_not_json_stays_as_it_is_written(self) -> None:
        written = ["<class 'int'>", "<function f>", "nan", "1e999", "1j", "1 (0)", "1 (1)", "b'x'"]
        assert self.values(*written) == written

    def test_two_values_never_become_the_same(self) -> None:
        assert self.values("(1, 2)", "[1, 2]") == ["(1, 2)", "[1, 2]"]
        assert self.values("1", "'1'") == [1, "1"]

    def test_the_first_bad_round_speaks_for_all(self) -> None:
        (case,) = asv_cases.find(
            {"name": "a", "params": [], "param_names": [], "version": "1", "type": "time", "unit": "seconds"}
        )
        assert asv_cases.record(case)["status"] == "unreached"
        for status, output, result in (
            (0, "", '{"samples": [1.0], "number": 1}'),
            (1, "ValueError: odd\n\n", ""),
            (0, "", '{"samples": [1.0], "number": 1}'),
            (TIMEOUT_RETCODE, "", ""),
        ):
            case.said.append(asv_cases.judge(status, output, result, 60))
        entry = asv_cases.record(case)
        assert (entry["status"], entry["reason"], entry["metrics"]) == ("failed", "ValueError: odd", [])

    @pytest.mark.parametrize(
        "result", ['{"samples": [], "number": 1}', '{"samples": [1.0, NaN], "number": 1}']
    )
    def test_samples_that_are_none(self, result: str) -> None:
        assert asv_cases.judge(0, "", result, 60).status == "failed"
