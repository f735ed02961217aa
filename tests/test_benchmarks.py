"""Does the suite keep its contract: the protocol, the classes, and the document that the worker writes?"""

from __future__ import annotations

import ast
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks import protocol, worker
from benchmarks.protocol import BUDGETS, Budget, Instant, Timing

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "benchmarks").glob("*.py"))
BUDGET = Budget(block_s=0.02, timed_s=0.3, blocks_min=3, blocks_max=8)
EAGER_MAX = 100
SCATTERED = (9.9, 10.0, 10.1, 10.2, 10.4)


@dataclass
class Clocks:
    """Clocks that stand still until a call moves them."""

    cpu_time: float = 0.0
    wall_time: float = 0.0

    def read(self) -> Instant:
        return Instant(self.cpu_time, self.wall_time)

    def pass_by(self, cpu_time: float, wall_time: float) -> None:
        self.cpu_time += cpu_time
        self.wall_time += wall_time


@dataclass
class Subject:
    """A benchmark whose calls take what `costs` says: CPU and wall seconds."""

    costs: tuple[float, float] = (0.001, 0.002)
    clocks: Clocks = field(default_factory=Clocks)
    calls: int = 0
    wrong: Callable[[int], str | None] = lambda _: None
    broken: Callable[[], None] = lambda: None
    refused: Callable[[], None] = lambda: None

    def setup(self) -> None:
        self.refused()

    def compile(self) -> None:
        self.clocks.pass_by(0.5, 0.7)

    def call(self) -> int:
        self.broken()
        self.calls += 1
        self.clocks.pass_by(*self.costs)
        return self.calls

    def check(self, result: int) -> str | None:
        return self.wrong(result)

    def metrics(self, timing: Timing, judged: str) -> list[dict[str, Any]]:
        return protocol.duration_metrics(timing, judged)

    def facts(self) -> tuple[dict[str, float], dict[str, str]]:
        return {"hlo_fusions": 3, "memory_bytes": 4096, "of_its_own": 0}, {"stablehlo": "abc"}

    def measure(self) -> dict[str, Any]:
        return protocol.measure(self, (), budget=BUDGET, judged="cpu_time", read=self.clocks.read)


def scattering(*, blocks_max: int, timed_s: float) -> list[float]:
    """Blocks of a call that takes some 10 ms, as in the docstring."""
    clocks = Clocks()
    costs = itertools.chain([0.02], itertools.cycle(each / 1000 for each in SCATTERED))
    timing, _ = protocol.run_blocks(
        lambda: clocks.pass_by(next(costs), 0.01),
        budget=Budget(block_s=0.02, timed_s=timed_s, blocks_min=3, blocks_max=blocks_max),
        judged="cpu_time",
        read=clocks.read,
    )
    return timing.cpu_time


def fail(error: Exception) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


class TestProtocol:
    def test_a_slow_call_gets_one_dropped_block_and_three_of_one(self) -> None:
        subject = Subject(costs=(0.170, 0.175))
        timing, last = protocol.run_blocks(
            subject.call, budget=BUDGET, judged="cpu_time", read=subject.clocks.read
        )
        assert timing.number == 1
        assert timing.cpu_time == pytest.approx([0.170] * 3)
        assert timing.wall_time == pytest.approx([0.175] * 3)
        assert last == subject.calls == 4

    def test_the_example_of_the_docstring(self) -> None:
        subject = Subject(costs=(0.0003, 0.0003))
        timing, _ = protocol.run_blocks(
            subject.call, budget=BUDGET, judged="cpu_time", read=subject.clocks.read
        )
        assert timing.number == 67
        assert timing.cpu_time == pytest.approx([0.0003] * 3)
        assert subject.calls == 1 + 10 + 67 + 3 * 67
        assert protocol.half_width(list(SCATTERED)) * 10.1 == pytest.approx(0.19, abs=0.005)
        assert protocol.half_width(list(SCATTERED)) == pytest.approx(0.0192, abs=0.0001)

    def test_blocks_that_scatter_go_on_until_their_median_is_known(self) -> None:
        assert len(scattering(blocks_max=30, timed_s=99)) == 15
        assert len(scattering(blocks_max=11, timed_s=99)) == 11
        assert len(scattering(blocks_max=30, timed_s=0.065)) == 7
        assert len(scattering(blocks_max=30, timed_s=0.0)) == 3

    @pytest.mark.parametrize("odd", [0.0, 1.0, 1e9])
    def test_one_odd_block_hardly_matters(self, odd: float) -> None:
        assert protocol.half_width([*SCATTERED[:4], odd]) < 0.04

    def test_an_interval_is_that_of_a_median(self) -> None:
        """Of normal values, 19 of 20 medians lie within their half-width; of few values somewhat less."""
        random = Random(7)  # noqa: S311
        for count, least in ((5, 0.80), (9, 0.86), (25, 0.91)):
            samples = [[random.gauss(100, 3) for _ in range(count)] for _ in range(600)]
            inside = [
                abs(median - 100) <= protocol.half_width(values) * median
                for values in samples
                for median in [statistics.median(values)]
            ]
            assert least < sum(inside) / len(inside) < 0.98

    def test_a_block_lasts_at_least_half_of_what_was_asked(self) -> None:
        subject = Subject(costs=(0.0006, 0.0006))
        number = protocol.calibrate(subject.call, budget=BUDGET, judged="cpu_time", read=subject.clocks.read)
        assert number == 34

    def test_the_first_block_is_dropped(self) -> None:
        clocks = Clocks()
        costs = iter([0.5] + [0.1] * 10)
        timing, _ = protocol.run_blocks(
            lambda: clocks.pass_by(next(costs), 0.1), budget=BUDGET, judged="cpu_time", read=clocks.read
        )
        assert timing.cpu_time == pytest.approx([0.1] * 3)

    def test_wall_time_ends_a_crowded_measurement_but_not_its_block_size(self) -> None:
        subject = Subject(costs=(0.001, 0.004))
        timing, _ = protocol.run_blocks(
            subject.call, budget=BUDGET, judged="cpu_time", read=subject.clocks.read
        )
        assert timing.number == 10
        subject = Subject(costs=(0.001, 0.010))
        timing, _ = protocol.run_blocks(
            subject.call, budget=BUDGET, judged="cpu_time", read=subject.clocks.read
        )
        assert timing.number == 10
        assert len(timing.cpu_time) == 3

    def test_a_call_that_costs_no_cpu_time_ends_too(self) -> None:
        subject = Subject(costs=(0.0, 0.01))
        number = protocol.calibrate(subject.call, budget=BUDGET, judged="cpu_time", read=subject.clocks.read)
        assert number == 100

    def test_an_ok_record(self) -> None:
        record = Subject().measure()
        assert (record["status"], record["reason"]) == ("ok", None)
        assert record["compile_s"] == pytest.approx(0.5)
        assert record["hashes"] == {"stablehlo": "abc"}
        assert (record["half_width"], record["warnings"]) == (0, [])
        cpu, wall, *counts = record["metrics"]
        assert (cpu["metric"], cpu["judged"], wall["metric"], wall["judged"]) == (
            "cpu_time",
            True,
            "wall_time",
            False,
        )
        assert cpu["blocks"] == pytest.approx([0.001] * 3)
        assert wall["blocks"] == pytest.approx([0.002] * 3)
        exact = {"better": "lower", "exact": True}
        assert counts == [
            {"metric": "hlo_fusions", "unit": "fusions", "judged": False, "blocks": [3], **exact},
            {"metric": "memory_bytes", "unit": "bytes", "judged": False, "blocks": [4096], **exact},
            {"metric": "of_its_own", "unit": "1", "judged": False, "blocks": [0], **exact},
        ]

    def test_a_count_is_stored_and_never_judged(self) -> None:
        kept = protocol.exact_metrics(dict.fromkeys(protocol.EXACT, 0))
        assert [(metric["metric"], metric["judged"], metric["blocks"]) for metric in kept] == [
            (name, False, [0]) for name in protocol.EXACT
        ]

    def test_what_a_benchmark_measures_itself_is_not_counted_again(self) -> None:
        assert (
            protocol.exact_metrics({"temp_bytes": 8, "flops": 2}, known=["temp_bytes"])[0]["metric"]
            == "flops"
        )

    def test_a_median_that_is_not_known_well_is_told(self) -> None:
        subject = Subject()
        costs = itertools.cycle([0.009, 0.011, 0.013, 0.015])
        subject.clocks.pass_by = lambda *_: None  # type: ignore[method-assign]
        clocks = Clocks()
        subject.call = lambda: clocks.pass_by(cost := next(costs), cost)  # type: ignore[method-assign,func-returns-value]
        budget = replace(BUDGET, block_s=0.01, timed_s=99)
        record = protocol.measure(subject, (), budget=budget, judged="cpu_time", read=clocks.read)
        assert record["warnings"] == ["interval still 24 % after 8 samples"]
        assert record["half_width"] == pytest.approx(3.642 * 0.002 * 8**0.5 / 7.2 / 0.012, rel=1e-3)

    def test_a_wrong_first_result_is_not_timed(self) -> None:
        subject = Subject(wrong=lambda _: "off by 3")
        record = subject.measure()
        assert (record["status"], record["reason"]) == ("wrong_result", "off by 3")
        assert record["metrics"] == []
        assert subject.calls == 1

    def test_a_result_that_goes_wrong_while_timed_has_no_time(self) -> None:
        record = Subject(wrong=lambda calls: "not finite" if calls > 1 else None).measure()
        assert (record["status"], record["reason"]) == ("wrong_result", "after timing: not finite")
        assert record["metrics"] == []

    def test_a_call_that_raises_is_failed_with_its_last_line(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        record = Subject(broken=fail(ValueError("long story\nthe point"))).measure()
        assert (record["status"], record["reason"]) == ("failed", "ValueError: the point")
        assert "Traceback" in capsys.readouterr().err

    def test_not_implemented_skips_in_setup_and_fails_later(self) -> None:
        skipped = Subject(refused=fail(NotImplementedError("no GPU"))).measure()
        assert (skipped["status"], skipped["reason"]) == ("skipped", "NotImplementedError: no GPU")
        assert Subject(broken=fail(NotImplementedError())).measure()["status"] == "failed"
        assert Subject(refused=fail(MemoryError())).measure()["reason"] == "MemoryError"

    def test_rates_come_from_the_judged_clock_and_from_wall_time(self) -> None:
        timing = Timing(1, cpu_time=[2.0, 4.0], wall_time=[8.0, 8.0])
        rate, wall = protocol.rate_metrics("mlups", "MLUPS", 16.0, timing, "cpu_time")
        assert (rate["metric"], rate["blocks"], rate["judged"]) == ("mlups", [8.0, 4.0], True)
        assert (wall["metric"], wall["blocks"], wall["judged"]) == ("mlups_wall", [2.0, 2.0], False)
        assert protocol.rate_metrics("mlups", "MLUPS", 16.0, timing, "wall_time")[0]["blocks"] == [2.0, 2.0]

    def test_the_judged_clock(self) -> None:
        assert protocol.judged_clock("cpu") == "cpu_time"
        assert protocol.judged_clock("gpu") == "wall_time"
        assert [
            metric["judged"] for metric in protocol.duration_metrics(Timing(1, [1.0], [2.0]), "wall_time")
        ] == [
            True,
            False,
        ]

    def test_asv_gets_the_judged_blocks_or_an_error(self) -> None:
        record = Subject().measure()
        assert protocol.headline(record) == {"samples": record["metrics"][0]["blocks"], "number": 1}
        assert [metric["judged"] for metric in record["metrics"]].count(True) == 1
        with pytest.raises(RuntimeError, match="wrong_result: off by 3"):
            protocol.headline(protocol.unmeasured("wrong_result", "off by 3"))

    def test_budgets_have_room_for_several_blocks(self) -> None:
        assert set(BUDGETS) == set(protocol.SIZES)
        assert all(3 <= budget.blocks_min <= budget.blocks_max for budget in BUDGETS.values())

    def test_an_unknown_size_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("STEPWATCH_SIZE", "huge")
        with pytest.raises(ValueError, match="must be one of smoke, full"):
            protocol.read_size()


class TestSources:
    @pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
    def test_python_3_9_can_read_it(self, path: Path) -> None:
        text = path.read_text()
        tree = ast.parse(text, feature_version=(3, 9))
        unions = [
            node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
        ]
        if unions:
            assert "from __future__ import annotations" in text

    @pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
    def test_it_brings_nothing_of_ours_and_nothing_to_install(self, path: Path) -> None:
        known = {"jax", "numpy", "benchmarks", "__future__"} | (
            {"xlb"} if path.stem == "xlb_package" else set()
        )
        tree = ast.parse(path.read_text())
        imported = {
            name.split(".")[0]
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert imported - known <= set(sys.stdlib_module_names)


class Product:
    version = "1"
    group = "core"
    param_names = ("edge", "kind")
    params = ((1, 2), ("a", "b"))

    def track_time(self) -> None: ...


Product.__module__ = "benchmarks.algebra"


class TestWorker:
    def test_names_and_titles(self) -> None:
        assert worker.name_of(Product) == "algebra.Product.track_time"
        assert worker._title(Product, (1, "a")) == "algebra.Product.track_time(edge=1, kind=a)"
        assert worker._combinations(Product) == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]

    def test_selection(self) -> None:
        cases = [(Product, params) for params in worker._combinations(Product)]
        assert worker.select(cases, only="", group=None) == cases
        assert worker.select(cases, only="edge=2, kind=b", group="core") == [(Product, (2, "b"))]
        assert worker.select(cases, only="", group="other") == []

    def test_the_seed_makes_the_order(self) -> None:
        cases = [(Product, params) for params in worker._combinations(Product)]
        orders = {tuple(params for _, params in worker.shuffle(cases, seed)) for seed in range(20)}
        assert len(orders) > 5
        assert worker.shuffle(cases, 3) == worker.shuffle(cases[::-1], 3)

    def test_a_document_is_replaced_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "out.json"
        worker.write_document({"document": 1}, path)
        with pytest.raises(ValueError, match="Out of range float"):
            worker.write_document({"document": float("nan")}, path)
        assert json.loads(path.read_text()) == {"document": 1}
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("out", [None, "missing/out.json"])
    def test_nowhere_to_write(
        self, out: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("STEPWATCH_SIZE", "")
        monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "")
        monkeypatch.delenv("STEPWATCH_OUT", raising=False)
        if out:
            monkeypatch.setenv("STEPWATCH_OUT", out)
        assert worker.main([]) == 2
        assert capsys.readouterr().err.startswith("benchmarks.worker: STEPWATCH_OUT ")

    def test_without_jax_it_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("STEPWATCH_SIZE", "")
        monkeypatch.setenv("JAX_ENABLE_COMPILATION_CACHE", "")
        monkeypatch.setenv("STEPWATCH_OUT", str(tmp_path / "out.json"))
        monkeypatch.setitem(sys.modules, "jax", None)
        assert worker.main([]) == 2
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith("benchmarks.worker: jax can't be used: ModuleNotFoundError")
        assert not (tmp_path / "out.json").exists()


RELEASE = ("jax==0.10.2", "jaxlib==0.10.2", "numpy==2.2.6", "scipy==1.15.3", "asv-runner==0.3.2")

PLANTED = {
    "wrong": "linear_algebra.MatMul.function = lambda self, left, right: left @ right + 1",
    "nan": "linear_algebra.MatMul.function = lambda self, left, right: left @ right * float('nan')",
    "skipped": "def setup(self, edge): raise NotImplementedError('not here')\nlinear_algebra.MatMul.setup = setup",
    "failed": "def function(self, left, right): raise ValueError('first\\nlast')\n"
    "linear_algebra.MatMul.function = function",
    "died": "def setup(self, edge): os._exit(7)\nlinear_algebra.MatMul.setup = setup",
}


@pytest.fixture(scope="module")
def python() -> Path:
    return install_release()


def install_release() -> Path:
    """The interpreter of a released jax; made once, and taken into use by a rename so that a torn one never is."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = ROOT / ".stepwatch" / "test-environments" / f"jax-0.10.2-python-{version}"
    if not home.exists():
        uv = ROOT / ".venv" / "bin" / "uv"
        making = home.with_name(f".{home.name}.{os.getpid()}")
        for arguments in (
            ["venv", "--quiet", "--relocatable", "--python", version, str(making)],
            [
                "pip",
                "install",
                "--quiet",
                "--compile-bytecode",
                "--python",
                str(making / "bin" / "python"),
                *RELEASE,
            ],
        ):
            subprocess.run([uv, *arguments], check=True)
        try:
            making.rename(home)
        except OSError:  # another process was first
            shutil.rmtree(making)
    return home / "bin" / "python"


def run_worker(
    python: Path, out: Path, *arguments: str, planted: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    program = (
        f"import os, sys\nfrom benchmarks import worker\nos.environ['STEPWATCH_SIZE'] = 'smoke'\n"
        f"from benchmarks import linear_algebra\n{planted}\nsys.exit(worker.main(sys.argv[1:]))"
    )
    start = ["-c", program] if planted else ["-m", "benchmarks.worker"]
    threads = dict.fromkeys(worker.THREADS, "1")
    # what is planted imports jax before the worker can turn its cache off
    cache = {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    environment = {**os.environ, **threads, **cache, "STEPWATCH_OUT": str(out), **variables}
    return subprocess.run(
        [python, *start, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


def counts_of(record: dict[str, Any]) -> dict[str, float]:
    return {each["metric"]: each["blocks"][0] for each in record["metrics"] if each.get("exact")}


@pytest.mark.install
class TestInAnEnvironment:
    def test_the_document_of_the_core_group(self, python: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.json"
        done = run_worker(python, out, "--size", "smoke", "--group", "core", "--seed", "7")
        assert done.returncode == 0, done.stderr
        document = json.loads(out.read_text())
        assert list(document) == [
            "document",
            "protocol",
            "suite",
            "size",
            "seed",
            "started_at",
            "finished_at",
            "loaded",
            "device",
            "settings",
            "warnings",
            "benchmarks",
        ]
        assert document["seed"] == 7
        assert document["loaded"]["jax"] == document["loaded"]["jaxlib"] == "0.10.2"
        assert document["loaded"]["jax_file"].startswith(str(python.parent.parent))
        assert document["device"]["platform"] == "cpu"
        assert document["settings"]["threads"]["OMP_NUM_THREADS"] == "1"
        assert len(document["benchmarks"]) == 9
        for record in document["benchmarks"]:
            assert (record["status"], record["reason"]) == ("ok", None), record
            assert record["compile_s"] > 0
            assert record["half_width"] >= 0
            measured = [metric for metric in record["metrics"] if not metric.get("exact")]
            counted = {metric["metric"]: metric for metric in record["metrics"] if metric.get("exact")}
            assert [metric["judged"] for metric in measured][:2] == [True, False]
            assert all(len(metric["blocks"]) >= 5 and min(metric["blocks"]) > 0 for metric in measured)
            assert {"stablehlo", "hlo"} <= record["hashes"].keys()
            assert not any(metric["judged"] for metric in counted.values())
            assert set(counted) >= {
                "python_calls_traced",
                "memory_bytes",
            }
            assert all(len(metric["blocks"]) == 1 for metric in counted.values())
            assert counted["hlo_instructions"]["blocks"][0] >= counted["hlo_fusions"]["blocks"][0]
        (cavity,) = (record for record in document["benchmarks"] if "Cavity" in record["name"])
        assert cavity["name"] == "lattice_boltzmann.Cavity.track_mlups"
        assert cavity["params"] == {"edge": 32, "steps": 10}
        assert [metric["metric"] for metric in cavity["metrics"]][:2] == ["mlups", "mlups_wall"]
        counts = counts_of(cavity)
        assert counts["jaxpr_equations"] > EAGER_MAX
        assert "python_calls_eager" not in counts
        assert document["settings"]["autotuning"] == "fresh"
        assert document["settings"]["compilation_cache"] is False
        assert done.stderr.count("blocks (") == 9

    def test_a_brief_process_leaves_out_what_takes_long_and_is_not_judged(
        self, python: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out.json"
        done = run_worker(python, out, "--only", "lattice_boltzmann.Cavity", "--brief")
        assert done.returncode == 0, done.stderr
        (cavity,) = json.loads(out.read_text())["benchmarks"]
        known = {metric["metric"] for metric in cavity["metrics"]}
        assert known >= {"mlups", "mlups_wall", "hlo_instructions"}
        assert not known & {"bandwidth_share", "python_calls_traced", "jaxpr_equations"}

    @pytest.mark.parametrize(
        ("planted", "status", "reason"),
        [
            ("wrong", "wrong_result", "off by up to "),
            ("nan", "wrong_result", "not finite: "),
            ("skipped", "skipped", "NotImplementedError: not here"),
            ("failed", "failed", "ValueError: last"),
        ],
    )
    def test_what_went_wrong_is_told_apart_and_the_others_go_on(
        self, planted: str, status: str, reason: str, python: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out.json"
        done = run_worker(python, out, "--only", r"linear_algebra.MatMul\.|FFT2D", planted=PLANTED[planted])
        assert done.returncode == 0, done.stderr
        document = json.loads(out.read_text())
        records = {record["name"].split(".")[1]: record for record in document["benchmarks"]}
        assert records["MatMul"]["status"] == status
        assert records["MatMul"]["reason"].startswith(reason)
        assert records["MatMul"]["metrics"] == []
        assert records["FFT2D"]["status"] == "ok"
        assert any("not finite" in warning for warning in document["warnings"]) == (planted == "nan")

    def test_counts_are_the_same_in_every_process(self, python: Path, tmp_path: Path) -> None:
        """Whatever the seed of the hashes, the order of the benchmarks and the depth of the stack."""
        seen: dict[tuple[str, str], list[Any]] = {}
        for seed in ("1", "2", "3"):
            out = tmp_path / f"{seed}.json"
            deeper = "worker.main = (lambda main: lambda *given: main(*given))(worker.main)\n" * int(seed)
            only = r"linear_algebra.MatMul\.|WhileLoop|Cholesky|RankEight.*4"
            done = run_worker(
                python, out, "--only", only, "--seed", seed, planted=deeper, PYTHONHASHSEED=seed
            )
            assert done.returncode == 0, done.stderr
            for record in json.loads(out.read_text())["benchmarks"]:
                title = f"{record['name']} {record['params']}"
                for name, value in {**counts_of(record), **record["hashes"]}.items():
                    seen.setdefault((title, name), []).append(value)
        assert {name for _, name in seen} >= {*protocol.EXACT, "hlo", "stablehlo"} - {
            "executable_bytes",
            "bytes_per_update",
        }
        assert {key: values for key, values in seen.items() if values != values[:1] * 3} == {}

    def test_a_process_that_dies_leaves_a_document_that_says_where(
        self, python: Path, tmp_path: Path
    ) -> None:
        out = tmp_path / "out.json"
        done = run_worker(
            python,
            out,
            "--only",
            r"linear_algebra.MatMul\.|FFT2D|Cholesky",
            "--seed",
            "1",
            planted=PLANTED["died"],
        )
        assert done.returncode == 7
        records = json.loads(out.read_text())["benchmarks"]
        position = [record["name"].split(".")[1] for record in records].index("MatMul")
        assert [record["status"] for record in records] == ["ok"] * position + ["failed"] + ["unreached"] * (
            2 - position
        )
        assert records[position]["reason"] == "the process ended while this was running"
        assert all("before this was reached" in record["reason"] for record in records[position + 1 :])

    def test_nothing_selected_is_one_sentence(self, python: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.json"
        done = run_worker(python, out, "--only", "Nothing")
        assert done.returncode == 2
        assert done.stderr == "benchmarks.worker: no benchmark matches 'Nothing'\n"
        assert not out.exists()

    def test_the_compiled_program_has_the_same_hashes_in_another_checkout(
        self, python: Path, tmp_path: Path
    ) -> None:
        other = tmp_path / "elsewhere" / "benchmarks"
        shutil.copytree(ROOT / "benchmarks", other, ignore=shutil.ignore_patterns("__pycache__"))
        for path in other.glob("*.py"):
            first = "from __future__ import annotations\n"
            path.write_text(path.read_text().replace(first, first + "\n# moved\n\n"))
        hashes = []
        for folder in (ROOT, other.parent):
            out = tmp_path / "out.json"
            subprocess.run(
                [python, "-m", "benchmarks.worker", "--only", r"RankEight.*4|linear_algebra.MatMul\."],
                cwd=folder,
                env={**os.environ, "STEPWATCH_OUT": str(out)},
                check=True,
                capture_output=True,
            )
            hashes.append([record["hashes"] for record in json.loads(out.read_text())["benchmarks"]])
        assert hashes[0] == hashes[1]
