"""Does `airflow dags trigger bisect` name what was planted in two histories, by building in a nightly image, on a real engine?

What is planted, and when, is in bed_planted.py.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from bed_planted import BAD, BENCHMARK, FLAGGED, FLAGS, GOOD, NIGHTS, lay, write_suite
from docker_bed import Bed
from worlds import ask

from stepwatch import settings as configuration
from stepwatch import wiring
from stepwatch.cli.airflow_client import Airflow, open_airflow
from stepwatch.core.model import CommitPair, Outcome
from stepwatch.jobs import janitor
from stepwatch.jobs.resolve import resolve
from stepwatch.runners.engine import local_name
from stepwatch.runners.image_builds import BUILD, KEPT_S, ImageBuildRunner
from stepwatch.runners.protocol import Failure, Opened, Process, UnreachableError
from storage.engine import connect
from storage.rows import Database

pytestmark = [pytest.mark.docker, pytest.mark.services]

LIMIT_S = 2400


@dataclass(frozen=True)
class World:
    bed: Bed
    airflow: Airflow
    database: Database
    hashes: dict[str, dict[str, str]]
    cache: Path

    def search(self, good: str, bad: str, **more: Any) -> dict[str, Any]:
        """What a run of the DAG `bisect` has ended with, as `bisect show --json` has it."""
        run = self.airflow.trigger("bisect", {"benchmark": BENCHMARK, "good": good, "bad": bad, **more})
        until = time.monotonic() + LIMIT_S
        while (state := self.airflow.state("bisect", run)[0]) not in {"success", "failed"}:
            assert time.monotonic() < until, state
            time.sleep(1)
        assert state == "success"
        ((number,),) = ask(self.database, "select max(id) from bisection")
        words = [
            sys.executable,
            "-c",
            "import stepwatch.cli; stepwatch.cli.main()",
            "bisect",
            "show",
            str(number),
            "--json",
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def pair(self, jax: str, xla: str) -> str:
        """The pair of two commits by their names, as a request names it."""
        return f"jax@{self.hashes['jax'][jax]}+xla@{self.hashes['xla'][xla]}"

    def named(self, found: dict[str, Any]) -> list[tuple[str, str | None, str | None, list[str]]]:
        """Kind, repository, commit and partners of each culprit, by the commits' names."""
        names = {each: name for by_name in self.hashes.values() for name, each in by_name.items()}
        return [
            (
                each["kind"],
                each["repository"],
                names.get(each["commit"]),
                [
                    next(names[known] for known in names if known.startswith(p.partition("@")[2]))
                    for p in each["partners"]
                ],
            )
            for each in found["culprits"]
        ]


@pytest.fixture(scope="module")
def world(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The nights are published, nothing is measured."""
    folder = tmp_path_factory.mktemp("builds")
    write_suite(folder / "suite")
    hashes = {}
    for name in ("jax", "xla"):
        (folder / "upstream" / name).mkdir(parents=True)
        hashes[name] = lay(folder / "upstream" / name, name, FLAGGED)
    image = f"{bed.registry}/nvidia/{{container}}"
    config = folder / "stepwatch.toml"
    config.write_text(
        f'scheduled = false\nstate = "{folder / "state"}"\ncache = "{folder / "cache"}"\n'
        'machine = "bench"\nsource = "nightlies"\nsuite = "planted"\n'
        f'[machines.bench]\nrunner = "docker"\nengine = "{bed.socket}"\ncontrol_days = 0\n'
        f'[sources.nightlies]\nkind = "registry"\nimage = "{image}:{{flavor}}-{{date}}"\nbuild_network = "none"\n'
        f'[repositories.jax]\nurl = "{folder / "upstream/jax"}"\n'
        f'[repositories.xla]\nurl = "{folder / "upstream/xla"}"\n'
        f'[suites.planted]\nfolder = "{folder / "suite"}"\nprocesses = 3\n',
        encoding="utf-8",
    )
    for night in NIGHTS:
        bed.publish(night)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPWATCH_CONFIG", str(config))
        settings = configuration.load()
        with wiring.local_stack(settings).running() as services:
            settings = settings.model_copy(update={"database_url": services.database_url})
            patch.setenv("STEPWATCH_DATABASE_URL", services.database_url)
            with wiring.open_database(settings), open_airflow(services) as airflow:
                database = connect(services.database_url)
                airflow.wait_for_dags({"bisect"})
                yield World(bed, airflow, database, hashes, folder / "cache")
                database.dispose()


@pytest.fixture(scope="module")
def search(world: World) -> dict[str, Any]:
    """The search of the whole range."""
    return world.search(str(GOOD), str(BAD))


def test_each_culprit_is_named_with_its_repository_and_commit(world: World, search: dict[str, Any]) -> None:
    assert world.named(search) == [
        ("commit", "xla", "merge the branch", []),
        ("commit", "jax", "cost of jax", []),
        ("interaction", "jax", "half of jax", ["half of xla"]),
    ]
    assert [each["change"] for each in search["culprits"]] == pytest.approx([3.0, 3.0, 3.0])
    assert [each["subject"] for each in search["culprits"]] == [
        "merge the branch",
        "cost of jax",
        "half of jax",
    ]


def test_the_hours_are_those_that_have_commits(search: dict[str, Any], world: World) -> None:
    ((first, last, count),) = ask(
        world.database,
        "select min(hour), max(hour), count(hour) from candidate where bisection_id = :id",
        id=search["bisection"],
    )
    assert (first.hour, last) == (22, dt.datetime(2024, 3, 2, 14, tzinfo=dt.UTC))
    assert count == 8, "22, 1, 2, 6, 10, 11, 13 and 14 o'clock"


def test_what_does_not_build_is_broken_and_what_changes_nothing_is_not_measured(
    search: dict[str, Any], world: World
) -> None:
    tried = {
        name: [each for each in search["probes"] if each["jax"] == world.hashes["jax"][name]]
        for name in ("does not build", "builds again")
    }
    assert [each["verdict"] for each in tried["does not build"]] == ["broken"]
    assert "SyntaxError" in tried["does not build"][0]["reason"]
    assert "planted.py" in tried["does not build"][0]["log"]
    same = next(each for each in tried["builds again"] if each["verdict"] is not None)
    assert same["reason"].startswith("built to the same as ")
    assert same["verdict"] == "same"


def test_what_was_not_built_anew_is_built_once_more_from_nothing(
    search: dict[str, Any], world: World
) -> None:
    """The first build of XLA's half takes over an object that was left: named all the same, above."""
    half = world.hashes["xla"]["half of xla"]
    values = {
        each["value"]
        for each in search["probes"]
        if each["xla"] == half and each["jax"] == world.hashes["jax"]["half of jax"]
    }
    assert [*values] == [pytest.approx(64.0)]


def test_a_merge_alone_is_searched_in_what_it_brought(world: World, search: dict[str, Any]) -> None:
    good = world.pair("words of the night", "a note of the night")
    bad = world.pair("words of the night", "merge the branch")
    found = world.search(good, bad, container=str(BAD))
    assert world.named(found) == [("commit", "xla", "cost on the branch", [])]
    again = {(each["jax"], each["xla"]) for each in found["probes"]}
    assert again & {(each["jax"], each["xla"]) for each in search["probes"]}, "built once, measured anew"


def test_what_the_flags_of_an_image_do_is_the_environments(world: World) -> None:
    found = world.search(str(BAD), str(FLAGGED))
    (culprit,) = found["culprits"]
    assert culprit["kind"] == "environment"
    assert f"XLA_FLAGS '' -> '{FLAGS}'" in culprit["reason"]
    assert len(found["probes"]) == 2, "both ends, built in one image"


# --- a build that goes wrong ------------------------------------------------------------------------------------------


def wrong(world: World, command: str, **more: Any) -> ImageBuildRunner:
    """What builds with another command in the image of the bad night."""
    place = wiring.workplace(configuration.load(), world.database, say=lambda _: None)
    image = resolve(place, str(BAD)).image
    assert isinstance(place.runner, ImageBuildRunner)
    return replace(place.runner.within(image), command=command, **more)


def pair_of(world: World) -> CommitPair:
    """A pair inside the whole range."""
    place = wiring.workplace(configuration.load(), world.database, say=lambda _: None)
    refs = world.hashes["jax"]["cost of jax"], world.hashes["xla"]["merge the branch"]
    pair = place.nights.pair(*refs)
    assert isinstance(pair, CommitPair), pair
    return pair


def failure(runner: ImageBuildRunner, pair: CommitPair) -> Failure:
    found = runner.open(pair)
    assert isinstance(found, Failure)
    assert not runner.has(pair), "it is tried again by whoever asks next"
    return found


def test_a_build_that_fails_says_its_own_error_and_keeps_its_log(world: World) -> None:
    command = "echo error: no rule for {xla}/planted; echo and more; exit 3"
    found = failure(wrong(world, command), pair_of(world))
    assert found.outcome is Outcome.BUILD_FAILED
    assert found.reason.endswith("does not build: exit status 3: error: no rule for /opt/xla/planted")
    assert "and more" in str(found.log)


def test_a_build_that_does_not_end_is_ended(world: World) -> None:
    found = failure(wrong(world, "sleep 600", limit_s=3.0), pair_of(world))
    assert found.outcome is Outcome.BUILD_FAILED
    assert "not ended after 3 s" in found.reason


def test_a_build_that_installs_nothing_is_stale(world: World) -> None:
    found = failure(wrong(world, "echo all is well"), pair_of(world))
    assert found.outcome is Outcome.STALE_BUILD
    assert "was not built, also from nothing: not of this commit: planted.py" in found.reason


def test_what_is_no_commits_fault_is_no_fact_about_it(world: World) -> None:
    runner, pair = wrong(world, "echo cp: No space left on device >&2; exit 1"), pair_of(world)
    with pytest.raises(UnreachableError, match="can't be built now: cp: No space left on device"):
        runner.open(pair)
    assert not runner.has(pair)


def test_what_was_loaded_must_be_what_was_built(world: World) -> None:
    runner = wrong(world, BUILD)
    opened = runner.open(pair_of(world))
    assert isinstance(opened, Opened)
    changed = {
        name: "0" * 64 if name.endswith("planted.so") else value for name, value in opened.stamp.items()
    }
    suite = wiring.workplace(configuration.load(), world.database, say=print).suite
    process = Process(suite=suite, seed=1, out=world.cache.parent / "runs" / "loaded.json")
    document = runner.bench(replace(opened, stamp=changed), process)
    assert isinstance(document, Failure)
    assert document.outcome is Outcome.STALE_BUILD
    assert "planted.so" in document.reason


def test_no_container_is_left(world: World) -> None:
    assert world.bed.docker("ps", "--all", "--quiet", "--filter", "label=stepwatch").stdout == ""


@pytest.mark.usefixtures("search")
def test_a_built_pair_goes_two_weeks_after_it_was_last_used(world: World) -> None:
    place = wiring.workplace(configuration.load(), world.database, say=lambda _: None)
    notes = sorted((world.cache / "built").glob("*.json"))
    names = [local_name(json.loads(each.read_text(encoding="utf-8"))["image"]) for each in notes]
    assert not set(names) & set(janitor.tidy(place))
    old = time.time() - KEPT_S - 60
    os.utime(notes[0], (old, old))
    assert names[0] in janitor.tidy(place)
    assert not notes[0].exists()
    assert names[1] not in janitor.tidy(place)


def test_no_pair_was_built_twice(world: World) -> None:
    notes = [json.loads(each.read_text(encoding="utf-8")) for each in (world.cache / "built").glob("*.json")]
    assert len({each["image"] for each in notes}) == len(notes)
