"""Does `stepwatch bench NEW --against OLD` say what is slower here, and does it need neither database nor service?"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from test_cli import NOWHERE, Terminal, variables
from worlds import (
    RANK8,
    WHILE,
    KilledError,
    ScriptedNights,
    ScriptedRunner,
    document,
    ladder_table,
    pair_of,
)

from stepwatch import wiring
from stepwatch.core.model import Environment, Outcome, Suite, Verdict
from stepwatch.jobs.compare_environments import (
    RESULT,
    Finding,
    compare_environments,
    comparison_folder,
    conclude,
)
from stepwatch.jobs.open_environment import ACCEPTED, differences, open_reference, same_environment
from stepwatch.runners import local
from stepwatch.runners.existing import open_existing
from stepwatch.runners.protocol import Failure, Opened, Process

OLD, NEW = pair_of("0.10.1", "0.10.1"), pair_of("0.10.2", "0.10.2")
FLAGS = {"XLA_FLAGS": "--some"}
EXACT = 504  # the seed with which worlds.document has no wobble


@dataclass
class Venvs(ScriptedRunner):
    """Every pair has an interpreter of its own; the user presses Ctrl-C after some processes."""

    folder: Path = Path("environments")
    interrupted_after: int | None = None
    autotuning: Path | None = None

    def open(self, pair: Any, *, like: Any = None) -> Opened | Failure:
        opened = super().open(pair, like=like)
        return (
            opened
            if isinstance(opened, Failure)
            else replace(opened, python=self.folder / str(pair) / "bin/python")
        )

    def bench(self, opened: Opened, process: Process) -> Mapping[str, Any] | Failure:
        if self.interrupted_after is not None and len(self.measured) >= self.interrupted_after:
            raise KeyboardInterrupt
        return super().bench(opened, process)


def sides(runner: Venvs) -> tuple[Opened, Opened]:
    old, new = runner.open(OLD), runner.open(NEW)
    assert isinstance(old, Opened)
    assert isinstance(new, Opened)
    return old, new


def compared(folder: Path, runner: Venvs | None = None, *, cap: int = 8) -> dict[str, Finding]:
    runner = runner or Venvs(table=ladder_table())
    suite = Suite(name="core", kind="stepwatch", folder=str(folder))
    found = compare_environments(runner, *sides(runner), suite, folder, cap=cap, tell=lambda *_: None)
    assert not isinstance(found, Failure), found
    return {each.benchmark.name: each for each in found}


def leave(folder: Path, side: str, values: Sequence[Any], *, name: str = WHILE, **metric: str) -> None:
    """Documents that processes have left: a value each, or a status with its reason."""
    folder.mkdir(exist_ok=True)
    for number, value in enumerate(values):
        file = folder / f"{side}-{number}.json"
        left = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else document({}, seed=EXACT)
        left["benchmarks"] += document({name: value}, seed=EXACT)["benchmarks"]
        for each in left["benchmarks"][-1]["metrics"]:
            each.update(metric)
        file.write_text(json.dumps(left), encoding="utf-8")


class TestVerdicts:
    def test_what_is_slower_leaves_at_once_and_the_rest_is_measured_on(self, tmp_path: Path) -> None:
        runner = Venvs(table=ladder_table())
        found = compared(tmp_path / "c", runner)
        slower, same = found[RANK8], found[WHILE]
        assert (slower.verdict, len(slower.new_values)) == (Verdict.DIFFERENT, 3)
        assert slower.worse == pytest.approx(12.5, rel=0.02)
        assert slower.low is not None
        assert slower.high is not None
        assert slower.low < 12.5 < slower.high
        assert (same.verdict, len(same.old_values), len(same.new_values)) == (Verdict.SAME, 5, 5)
        assert conclude(list(found.values())) == "1 of 2 is slower, 0 faster, 1 the same, 0 not decided"
        order = [name.rpartition("/")[2].removesuffix(".json") for _, name in runner.measured]
        assert order == [
            "old-0",
            "new-0",
            "new-1",
            "old-1",
            "old-2",
            "new-2",
            "new-3",
            "old-3",
            "old-4",
            "new-4",
        ]
        last = json.loads((tmp_path / "c" / "old-4.json").read_text(encoding="utf-8"))
        assert [each["name"] for each in last["benchmarks"]] == [WHILE]

    def test_faster(self, tmp_path: Path) -> None:
        table = {**ladder_table(), ("0.10.2", "0.10.2"): {RANK8: 0.1}, ("0.10.1", "0.10.1"): {RANK8: 0.4}}
        (only,) = compared(tmp_path / "c", Venvs(table=table)).values()
        assert (only.verdict, only.slower, only.faster) == (Verdict.DIFFERENT, False, True)
        assert only.worse == pytest.approx(0.25, rel=0.02)
        assert conclude([only]) == "0 of 1 are slower, 1 faster, 0 the same, 0 not decided"

    def test_a_rate_that_falls_is_slower(self, tmp_path: Path) -> None:
        rate = {"better": "higher", "unit": "MLUPS"}
        leave(tmp_path / "c", "old", [30.0] * 3, **rate)
        leave(tmp_path / "c", "new", [10.0] * 3, **rate)
        only = compared(tmp_path / "c")[WHILE]
        assert only.slower
        assert only.worse == pytest.approx(3)
        assert (only.old, only.new) == (pytest.approx(0.0303), pytest.approx(0.0101))

    def test_what_is_not_clear_at_the_cap_is_not_decided(self, tmp_path: Path) -> None:
        leave(tmp_path / "c", "old", [1.00, 1.09, 1.02, 1.11, 1.05])
        leave(tmp_path / "c", "new", [1.05, 1.14, 1.06, 1.16, 1.12])
        only = compared(tmp_path / "c", cap=5)[WHILE]
        assert only.verdict is Verdict.UNKNOWN
        assert only.reason.startswith("can't be told: +")
        assert conclude([only]) == "0 of 1 are slower, 0 faster, 0 the same, 1 not decided"

    def test_a_broken_side_says_which_and_keeps_the_others(self, tmp_path: Path) -> None:
        crash = ("wrong_result", "off by up to 3")
        table = {**ladder_table(), ("0.10.2", "0.10.2"): {RANK8: crash, WHILE: 0.5}}
        found = compared(tmp_path / "c", Venvs(table=table))
        assert (found[RANK8].verdict, found[RANK8].reason) == (
            Verdict.BROKEN,
            "new: wrong_result: off by up to 3",
        )
        assert (found[RANK8].worse, len(found[RANK8].old_values)) == (None, 3)
        assert found[WHILE].verdict is Verdict.SAME
        assert conclude(list(found.values())).endswith("0 not decided, 1 not to be compared")

    def test_what_both_sides_skip_is_a_row_too(self, tmp_path: Path) -> None:
        skipped = {RANK8: ("skipped", "no such dtype"), WHILE: 0.5}
        table = {("0.10.1", "0.10.1"): skipped, ("0.10.2", "0.10.2"): skipped}
        found = compared(tmp_path / "c", Venvs(table=table))  # type: ignore[arg-type]
        assert (found[RANK8].verdict, found[RANK8].reason) == (
            Verdict.BROKEN,
            "old: skipped: no such dtype",
        )

    def test_what_a_crash_kept_from_being_reached_is_measured_on(self, tmp_path: Path) -> None:
        # in each of the first three processes of the new side RANK8 kills all; twice before WHILE's turn
        leave(tmp_path / "c", "old", [1.0] * 3, name=RANK8)
        leave(tmp_path / "c", "old", [0.5] * 3)
        leave(tmp_path / "c", "new", [("failed", "the process ended while this was running")] * 3, name=RANK8)
        leave(tmp_path / "c", "new", [("unreached", "-"), 0.5, ("unreached", "-")])
        runner = Venvs(table=ladder_table())
        found = compared(tmp_path / "c", runner)
        assert found[RANK8].verdict is Verdict.BROKEN
        assert (found[WHILE].verdict, len(found[WHILE].new_values)) == (Verdict.SAME, 5)
        assert len(runner.measured) == 2 * 4, "seven a side: two of the new one never came to it"

    def test_what_is_never_reached_is_broken(self, tmp_path: Path) -> None:
        leave(tmp_path / "c", "old", [0.5] * 5)
        leave(tmp_path / "c", "new", [("unreached", "-")] * 5)
        only = compared(tmp_path / "c", cap=5)[WHILE]
        assert (only.verdict, only.reason) == (
            Verdict.BROKEN,
            "only 0 of 5 processes a side came to it",
        )

    def test_a_process_that_leaves_nothing_breaks_only_what_is_undecided(self, tmp_path: Path) -> None:
        table = ladder_table()
        runner = Venvs(table=table)
        leave(tmp_path / "c", "old", [0.4] * 3, name=RANK8)
        leave(tmp_path / "c", "new", [5.0] * 3, name=RANK8)
        leave(tmp_path / "c", "old", [0.5] * 3)
        leave(tmp_path / "c", "new", [0.5] * 3)
        table["0.10.2", "0.10.2"] = Failure(outcome=Outcome.TIMED_OUT, reason="not ended after 600 s")
        found = compared(tmp_path / "c", runner)
        assert found[RANK8].slower
        assert (found[WHILE].verdict, found[WHILE].reason) == (Verdict.BROKEN, "new: not ended after 600 s")
        assert len(found[WHILE].old_values) == 3

    def test_nothing_measured_is_a_failure_with_its_side(self, tmp_path: Path) -> None:
        runner = Venvs(table=ladder_table())
        runner.table["0.10.1", "0.10.1"] = Failure(
            outcome=Outcome.BENCHMARK_FAILED, reason="no benchmark matches"
        )
        suite = Suite(name="core", kind="stepwatch", folder=str(tmp_path))
        found = compare_environments(runner, *sides(runner), suite, tmp_path, cap=8, tell=lambda *_: None)
        assert found == Failure(outcome=Outcome.BENCHMARK_FAILED, reason="old: no benchmark matches")

    def test_zero_has_no_ratio(self, tmp_path: Path) -> None:
        leave(tmp_path / "c", "old", [0.0] * 3)
        leave(tmp_path / "c", "new", [1.0] * 3)
        only = compared(tmp_path / "c")[WHILE]
        assert (only.verdict, only.worse) == (Verdict.BROKEN, None)

    def test_a_count_is_decided_at_once_and_is_no_time(self, tmp_path: Path) -> None:
        folder = tmp_path / "c"
        for side, counts in (("old", (7.0, 9.0, 5.0)), ("new", (8.0, 9.0, 5.0))):
            leave(folder, side, [0.4 if side == "old" else 5.0] * 3)
            for file in folder.glob(f"{side}-*"):
                left = json.loads(file.read_text(encoding="utf-8"))
                own = {"unit": "calls", "better": "lower", "judged": True, "exact": True}
                moving = counts[2] + (file.stem == "new-1")
                left["benchmarks"][0]["metrics"] += [
                    {"metric": name, "blocks": [value], **own}
                    for name, value in (("calls", counts[0]), ("bytes", counts[1]), ("moving", moving))
                ]
                file.write_text(json.dumps(left), encoding="utf-8")
        runner = Venvs(table=ladder_table())
        suite = Suite(name="core", kind="stepwatch", folder=str(folder))
        found = compare_environments(runner, *sides(runner), suite, folder, cap=8, tell=lambda *_: None)
        assert not isinstance(found, Failure)
        verdicts = {each.benchmark.metric: each.verdict for each in found}
        assert verdicts == {
            "cpu_time": Verdict.DIFFERENT,
            "calls": Verdict.DIFFERENT,
            "bytes": Verdict.SAME,
            "moving": Verdict.UNKNOWN,
        }
        assert not runner.measured
        assert conclude(found) == "1 of 1 is slower, 0 faster, 0 the same, 0 not decided; 1 counts changed"


class TestInterrupted:
    @pytest.mark.parametrize("processes", range(10))
    def test_killed_anywhere_it_goes_on(self, tmp_path: Path, processes: int) -> None:
        whole = compared(tmp_path / "whole" / "c")
        runner = Venvs(table=ladder_table(), dies_after=processes)
        with pytest.raises(KilledError):
            compared(tmp_path / "c", runner)
        runner.dies_after = None
        assert compared(tmp_path / "c", runner) == whole
        assert len(runner.measured) == len(set(runner.measured)) == 10

    def test_a_finished_one_and_another_question_start_anew(self, tmp_path: Path) -> None:
        (tmp_path / "benchmarks").mkdir()
        code = tmp_path / "benchmarks" / "some.py"
        code.write_text("version = 1", encoding="utf-8")
        suite = Suite(name="core", kind="stepwatch", folder=str(tmp_path))
        old, new = sides(Venvs(table=ladder_table()))

        def folder(
            old: Opened = old, new: Opened = new, suite: Suite = suite, *, fresh: bool = False
        ) -> Path:
            return comparison_folder(tmp_path, old, new, suite, fresh=fresh)

        first = folder()
        assert first.parent == tmp_path / "comparisons"
        assert first.name.startswith("0.10.1+0.10.1_to_0.10.2+0.10.2-")
        first.mkdir(parents=True)
        assert folder() == folder(suite=replace(suite, processes=9)) == first
        assert folder(fresh=True).name == first.name.removesuffix("1") + "2"
        others = {
            first,
            folder(new, old),
            folder(suite=replace(suite, only="RankEight")),
            folder(new=replace(new, environment=replace(new.environment, base="another build"))),
        }
        assert len(others) == 4
        code.write_text("version = 2", encoding="utf-8")
        assert folder() != first
        code.write_text("version = 1", encoding="utf-8")
        (first / RESULT).touch()
        assert folder().name == first.name.removesuffix("1") + "2"


def made(folder: Path, *, version: str = "0.10.3.dev7", jaxlib_in: Path | None = None) -> Path:
    """A virtual environment's python that loads a made-up jax, and jaxlib from where it was built."""
    for name, where in (("jax", folder / "lib"), ("jaxlib", jaxlib_in or folder / "lib")):
        (where / name).mkdir(parents=True)
        (where / name / "__init__.py").write_text(f"__version__ = {version!r}\n", encoding="utf-8")
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    paths = f"{folder / 'lib'}:{jaxlib_in or ''}"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={paths} exec {sys.executable} "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return python


class TestExisting:
    def test_it_is_what_it_loads(self, tmp_path: Path) -> None:
        python = made(tmp_path / "venv", jaxlib_in=tmp_path / "bazel-out")
        opened = open_existing(python, FLAGS)
        assert opened == open_existing(tmp_path / "venv", FLAGS)
        assert isinstance(opened, Opened)
        assert (opened.python, str(opened.environment.pair)) == (python, "jax@0.10.3.dev7+xla@0.10.3.dev7")
        assert opened.environment.base.startswith(f"cpython {sys.version.split()[0]}, ")
        assert any(line.startswith("numpy==") for line in opened.environment.freeze)
        assert opened.environment.flags == FLAGS
        loaded = {
            f"{name}{of}": value
            for name, where in (("jax", tmp_path / "venv/lib"), ("jaxlib", tmp_path / "bazel-out"))
            for of, value in (("", "0.10.3.dev7"), ("_file", str(where / name / "__init__.py")))
        }
        assert local._stale(opened, {"loaded": loaded}) is None
        assert local._stale(opened, {"loaded": loaded | {"jaxlib": "0.10.4"}}) is not None, (
            "rebuilt meanwhile"
        )

    def test_another_build_of_one_version_is_another_environment(self, tmp_path: Path) -> None:
        before = open_existing(made(tmp_path / "venv"), FLAGS)
        (tmp_path / "venv/lib/jaxlib/xla_extension.so").write_bytes(b"another")
        after = open_existing(tmp_path / "venv", FLAGS)
        assert isinstance(before, Opened)
        assert isinstance(after, Opened)
        assert before.environment.pair == after.environment.pair
        assert before.environment.hash != after.environment.hash

    def test_nothing_of_ours_is_taken_for_its_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made(tmp_path / "venv")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "venv/lib"))
        bare = tmp_path / "bare"
        bare.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
        bare.chmod(0o755)
        opened = open_existing(bare, FLAGS)
        assert isinstance(opened, Failure)
        reason = f"{bare}: jax can't be imported there: ModuleNotFoundError: No module named 'jax'"
        assert opened.reason == reason

    @pytest.mark.parametrize("what", ["empty", "text", "silent"])
    def test_what_is_no_environment(self, tmp_path: Path, what: str) -> None:
        path = tmp_path / what
        if what == "empty":
            path.mkdir()
        else:
            path.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
            path.chmod(0o755 if what == "silent" else 0o644)
        opened = open_existing(path, FLAGS)
        assert isinstance(opened, Failure)
        assert opened.reason.startswith(f"{path} is n")

    def test_two_environments_may_share_the_program(self, tmp_path: Path) -> None:
        links = []
        for name in ("one/bin/python", "two/bin/python", "two/bin/python3"):
            link = tmp_path / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(sys.executable)
            links.append(replace(sides(Venvs(table=ladder_table()))[0], python=link))
        assert not same_environment(links[0], links[1])
        assert same_environment(links[1], links[2])


class TestReferences:
    def opened(self, ref: str) -> Opened | str:
        return open_reference(
            ref,
            ScriptedNights(missing=frozenset({"0.5.0"})),
            Venvs(table=ladder_table()),
            lambda name: f"the registry has no {name}",
            FLAGS,
        )

    @pytest.mark.parametrize(
        ("ref", "release"),
        [
            ("0.10.2", "0.10.2"),
            ("jax@0.10.1+xla@0.10.1", "0.10.1"),
            ("2024-06-03", "0.4.33"),
            ("2024-07-01", "0.10.2"),
        ],
    )
    def test_what_is_accepted(self, ref: str, release: str) -> None:
        opened = self.opened(ref)
        assert isinstance(opened, Opened)
        assert opened.environment.pair == pair_of(release, release)

    @pytest.mark.parametrize(
        ("ref", "sentence"),
        [
            ("9.9.9", "9.9.9 can't be measured: jax 9.9.9 was never released; "),
            ("0.5.0", "0.5.0 can't be measured: jax 0.5.0 was never released; "),
            ("2030-01-01", "releases has no night in the 60 days up to 2030-01-01; "),
            ("./nowhere", "./nowhere: no such file; "),
        ],
    )
    def test_what_is_refused_with_what_is_accepted(self, ref: str, sentence: str) -> None:
        refused = self.opened(ref)
        assert isinstance(refused, str)
        assert refused.startswith(sentence)
        assert refused.endswith(ACCEPTED)

    @pytest.mark.parametrize(
        "ref",
        [
            "ghcr.io/nvidia/jax:jax-2024-09-16",
            f"127.0.0.1:5000/jax@sha256:{64 * 'a'}",
            "ghcr.io#nvidia/jax:x",
            "docker://jax",
        ],
    )
    def test_a_container_is_asked_of_its_registry(self, ref: str) -> None:
        assert self.opened(ref) == f"the registry has no {ref}"

    def test_two_containers_are_the_same_by_their_digests(self) -> None:
        one = sides(Venvs(table=ladder_table()))[0]
        first, second = (
            replace(one, environment=replace(one.environment, image_digest=digest)) for digest in "ab"
        )
        assert same_environment(first, first)
        assert not same_environment(first, second)

    def test_a_pair_that_does_not_go_together(self) -> None:
        assert self.opened("jax@0.4.31+xla@0.4.33") == (
            "jax@0.4.31+xla@0.4.33 can't be made: jax==0.4.31 depends on jaxlib==0.4.31"
        )
        assert self.opened("jax@1+xla@0.4.33") == "jax@1+xla@0.4.33: jax 1 was never released"

    def test_a_folder_here_is_an_environment_where_it_has_a_python(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "0.10.2").mkdir()
        release = self.opened("0.10.2")
        made(tmp_path / "nightly")
        mine = self.opened("nightly")
        assert isinstance(release, Opened)
        assert isinstance(mine, Opened)
        assert release.environment.pair == NEW
        assert mine.environment.pair.jax.ref == "0.10.3.dev7"

    def test_what_differs_beside_the_two(self) -> None:
        def environment(base: str, *freeze: str) -> Environment:
            return Environment(pair=OLD, base=base, freeze=freeze)

        old = environment(
            "cpython 3.11.7", "jax==1", "ml_dtypes==0.5", "scipy==1.15.3", "numpy==2", "pip==24"
        )
        new = environment(
            "cpython 3.12.1, /v (a1)", "jax==2", "ml-dtypes==0.5", "scipy==1.16", "etils @ file:///e"
        )
        assert differences(old, new) == (
            "cpython 3.11.7 -> cpython 3.12.1",
            "etils (none) -> file:///e",
            "numpy 2 -> (none)",
            "scipy 1.15.3 -> 1.16",
        )
        assert differences(old, replace(old, base="cpython 3.11.7, /v (b2)")) == ()


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Venvs:
    scripted = Venvs(table=ladder_table())
    monkeypatch.setattr(wiring, "runner", lambda *_: scripted)
    monkeypatch.setattr(wiring, "measurer", lambda *_, **__: scripted)
    monkeypatch.setattr(wiring, "nights", lambda *_: ScriptedNights())
    return scripted


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    (tmp_path / "stepwatch.toml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    for name, value in variables(tmp_path, NOWHERE).items():
        monkeypatch.setenv(name, value)
    return Terminal(monkeypatch, capsys)


AGAINST = ("bench", "0.10.2", "--against", "0.10.1")


@pytest.mark.usefixtures("runner")
class TestCommand:
    def test_the_table_and_the_last_line(self, terminal: Terminal) -> None:
        done = terminal(*AGAINST)
        assert done.code == 0
        lines = [" ".join(line.split()) for line in done.out.splitlines()]
        assert lines[:4] == [
            "old: 0.10.1: jax 0.10.1, jaxlib 0.10.1, cpython 3.11",
            "new: 0.10.2: jax 0.10.2, jaxlib 0.10.2, cpython 3.11",
            "beside jax and jaxlib: nothing differs",
            "",
        ]
        assert lines[4] == "benchmark old new ratio interval processes verdict reason"
        assert lines[5].startswith("reductions.RankEight(edge=5) 4")
        assert "slower" in lines[5]
        assert " 3 + 3 DIFFERENT the closest of 3 processes a side are x " in lines[5]
        assert " 5 + 5 SAME " in lines[6]
        assert lines[-2:] == [
            "less than 5% counts as the same; intervals are two standard errors",
            "1 of 2 is slower, 0 faster, 1 the same, 0 not decided",
        ]

    def test_one_json_document(self, terminal: Terminal, tmp_path: Path) -> None:
        done = terminal(*AGAINST, "--json", "--only", "RankEight", "--size", "full", "--group", "all")
        assert done.code == 0
        found = done.document
        assert set(found) == {
            "old", "new", "differences", "suite", "folder", "same_within", "warnings", "benchmarks", "verdict",
        }  # fmt: skip
        assert found["suite"] == {"name": "core", "group": None, "size": "full", "only": "RankEight"}
        assert (found["old"]["ref"], found["new"]["jaxlib"]) == ("0.10.1", "0.10.2")
        assert Path(found["folder"]).is_relative_to(tmp_path / "cache" / "comparisons")
        assert f"documents are kept in {found['folder']}" in done.err
        row = found["benchmarks"][0]
        assert (row["benchmark"], row["params"], row["metric"]) == (RANK8, {"edge": 5}, "cpu_time")
        assert (row["verdict"], row["better"], len(row["old_values"])) == ("different", "lower", 3)
        assert row["old"] == pytest.approx(0.4e-3 * 1.01, rel=0.02)
        assert row["low"] < row["worse"] < row["high"]
        assert json.loads((Path(found["folder"]) / RESULT).read_text(encoding="utf-8")) == found

    def test_faster_warnings_and_counts_are_said_as_such(
        self, terminal: Terminal, runner: Venvs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def bench(self: Venvs, opened: Opened, process: Process) -> Any:
            written = dict(ScriptedRunner.bench(self, opened, process))
            written["warnings"] = [f"load {len(self.measured)}.5 at start"]
            memory, temporary = (96.0, 0.0) if process.out.stem.startswith("old") else (48.0, 64.0)
            own = {
                "metric": "memory_bytes",
                "unit": "bytes",
                "better": "lower",
                "judged": False,
                "exact": True,
            }
            for each in written["benchmarks"]:
                each["warnings"] = ["interval still 9 % after 20 samples"] if each["name"] == WHILE else []
                each["metrics"].append({**own, "blocks": [memory]})
                each["metrics"].append({**own, "metric": "temp_bytes", "blocks": [temporary]})
            process.out.write_text(json.dumps(written), encoding="utf-8")
            return written

        monkeypatch.setattr(Venvs, "bench", bench)
        runner.table["0.10.2", "0.10.2"] = {RANK8: 0.01, WHILE: 0.5}
        out = terminal(*AGAINST).out
        assert re.search(r"x (39|40|41)\S* faster", out)
        assert re.search(r"^warning: load \d+.5 at start \(and \d like it\)$", out, re.MULTILINE)
        assert out.count("; old: interval still 9 % after 20 samples; new: interval still 9 % after") == 1
        counts = (
            "counts of control_flow.WhileLoop(edge=5): memory_bytes 96 -> 48 (-50.0 %), temp_bytes 0 -> 64\n"
        )
        assert counts in out
        assert (
            out.splitlines()[-1] == "0 of 2 are slower, 1 faster, 1 the same, 0 not decided; 4 counts changed"
        )

    def test_the_worst_stands_first(self, terminal: Terminal, runner: Venvs) -> None:
        runner.table["0.10.2", "0.10.2"] = {RANK8: 400.0, WHILE: 5.0}
        rows = terminal(*AGAINST, "--json").document["benchmarks"]
        assert [row["benchmark"] for row in rows] == [RANK8, WHILE]

    def test_fail_on_slower(self, terminal: Terminal) -> None:
        done = terminal(*AGAINST, "--fail-on-slower")
        assert done.code == 1
        assert done.out.splitlines()[-1].startswith("1 of 2 is slower")
        assert done.err.splitlines()[-1].startswith("Error: 1 of 2 is slower")
        assert terminal("bench", "0.4.31", "--against", "0.4.30", "--fail-on-slower").code == 0

    def test_ctrl_c_and_on(self, terminal: Terminal, runner: Venvs) -> None:
        runner.interrupted_after = 4
        stopped = terminal(*AGAINST)
        assert (stopped.code, stopped.out) == (130, "")
        assert "the same command goes on from there" in stopped.err
        runner.interrupted_after = None
        again = terminal(*AGAINST)
        assert again.code == 0
        assert "it goes on; processes that were measured before: 4" in again.err
        assert len(runner.measured) == len(set(runner.measured)) == 10
        assert terminal(*AGAINST).code == 0
        assert len(runner.measured) == 20, "what is finished is measured again"

    def test_the_active_environment_is_new(self, terminal: Terminal, tmp_path: Path, runner: Venvs) -> None:
        python = made(tmp_path / "venv", version="0.10.2")
        terminal.monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
        done = terminal("bench", "--against", "0.10.1", "--json")
        assert done.code == 0
        assert done.document["new"]["python"] == str(python)
        assert done.document["benchmarks"][0]["verdict"] == "different"
        assert runner.opened == ["jax@0.10.1+xla@0.10.1"]

    def test_mistakes(self, terminal: Terminal, tmp_path: Path, runner: Venvs) -> None:
        assert terminal.refuses("bench", "--against", "0.10.1") == (
            f"NEW is not given and no virtual environment is active; {ACCEPTED}"
        )
        terminal.monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
        assert terminal.refuses("bench", "--against", "0.10.1") == (
            "NEW is not given and the active virtual environment can't be it: "
            f"{tmp_path} is neither a virtual environment nor its python; {ACCEPTED}"
        )
        assert terminal.refuses("bench", "9.9", "--against", "0.10.1").startswith("9.9 can't be measured: ")
        twice = terminal.refuses("bench", "jax@0.10.1+xla@0.10.1", "--against", "0.10.1")
        assert twice.startswith("OLD and NEW are both environments/")
        assert terminal.refuses(*AGAINST, "--only", "(").startswith("--only '(' is no regular expression: ")
        reason = "exit status 2: benchmarks.worker: no benchmark of group 'core' matches 'x'"
        runner.table["0.10.1", "0.10.1"] = Failure(outcome=Outcome.BENCHMARK_FAILED, reason=reason)
        assert not runner.measured
        done = terminal(*AGAINST, "--only", "x")
        assert (done.code, done.out) == (1, "")
        assert done.err.splitlines()[-1] == (
            f"Error: nothing was measured: old: {reason} (--group all looks in all groups)"
        )
        assert terminal("bench", "0.10.2").code == 2
        assert terminal(*AGAINST, "--processes", "4").code == 2
