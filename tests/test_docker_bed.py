"""Is the Docker test bed as it says: do its nights run, are they wrong in the way that is named, does it leave nothing?"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
import re
from pathlib import Path

import bed_images
import docker_bed
import pytest
from bed_nights import NIGHTS, RELEASES, BedError, Fault, Kind, NightSpec, heads, night_of, xla_hashes
from docker_bed import Bed, running_bed, why_not

SAY = "import jax; print(jax.__version__, jax.numpy.arange(4).sum())"
OLD, NEW = "0.4.20", "0.4.35"


def day(number: int) -> dt.date:
    return dt.date(2024, 2, number)


def faulty(fault: Fault) -> NightSpec:
    return next(each for each in NIGHTS if each.fault is fault)


def pulled(bed: Bed, spec: NightSpec) -> str:
    """What a night's reference is, once it was published and pulled."""
    bed.publish(spec)
    reference = bed.reference(spec.date)
    done = bed.docker("pull", "--quiet", reference)
    assert done.returncode == 0, done.stderr
    return reference


def in_container(bed: Bed, reference: str, *line: str) -> tuple[int, str]:
    done = bed.docker("run", "--rm", "--network", "none", reference, *line)
    return done.returncode, (done.stdout + done.stderr).strip()


def refusal(bed: Bed, date: dt.date) -> str:
    done = bed.docker("pull", "--quiet", bed.reference(date))
    assert done.returncode != 0
    return done.stderr


# --- without Docker ---------------------------------------------------------------------------------------------------


def test_each_release_has_three_good_nights_in_a_row() -> None:
    good = [each for each in NIGHTS if each.fault is Fault.NONE]
    assert [each.date for each in good] == [day(4 + i) for i in range(15)]
    assert [each.jax for each in good] == [version for version in RELEASES for _ in range(3)]
    assert {each.kind for each in good} == set(Kind)
    assert {each.fault for each in NIGHTS} == set(Fault)


def test_tags_and_folders_change_their_names_in_the_middle() -> None:
    assert [(each.tag, each.source("xla")) for each in map(night_of, (day(9), day(10)))] == [
        ("nightly-2024-02-09", "/opt/xla-source"),
        ("jax-2024-02-10", "/opt/xla"),
    ]


def test_hashes_are_the_same_on_every_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    xla_hashes.cache_clear()
    assert heads(night_of(day(16))) == {
        "jax": "db9e75a40f735c2dec2aacab9cfd2edc09e217b9",
        "xla": "1484052a063c5aedbe5e0e9c996ae5367439a728",
    }
    first, second, third = (heads(night_of(day(number))) for number in (10, 11, 12))
    assert first["jax"] == second["jax"] == third["jax"]
    assert len({first["xla"], second["xla"], third["xla"]}) == 3


def test_a_nights_layer_is_the_same_each_time() -> None:
    made = []
    for _ in range(2):
        with bed_images.night_layer(night_of(day(12))) as layer:
            made.append((layer.digest, layer.size))
    assert made[0] == made[1]


def test_why_there_can_be_no_bed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert why_not() == "a Docker daemon of our own needs root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(docker_bed, "program", lambda name: None if "docker-" in name else name)
    assert why_not() == "not installed: docker-registry"
    monkeypatch.setattr(docker_bed, "program", lambda name: name if name != "debootstrap" else None)
    assert why_not(tmp_path) == "not installed: debootstrap (it makes the images' base)"
    monkeypatch.setattr(docker_bed, "program", lambda name: name)
    monkeypatch.setattr(docker_bed, "mirror", lambda: None)
    assert why_not(tmp_path) == "apt names no mirror of Debian's bookworm"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "a.list",
            "# deb http://no.example stable main\ndeb [signed-by=/k.gpg] http://a.example/debian it main\n",
        ),
        (
            "a.sources",
            "# words\nTypes: deb\nURIs: http://a.example/debian\nSuites: it it-updates\n\nTypes: deb\n",
        ),
    ],
)
def test_what_apt_is_told_is_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert [(url, suites[0]) for url, suites in bed_images._sources(tmp_path / name)] == [
        ("http://a.example/debian", "it")
    ]


# --- with Docker ------------------------------------------------------------------------------------------------------


@pytest.mark.docker
@pytest.mark.parametrize("number", [5, 16], ids=["early", "late"])
def test_a_good_night_runs(bed: Bed, number: int) -> None:
    spec = night_of(day(number))
    reference = pulled(bed, spec)
    assert in_container(bed, reference, "python3", "-c", SAY) == (0, f"{spec.jax} 6")
    for package, commit in heads(spec).items():
        place = spec.source(package)
        assert in_container(bed, reference, "git", "-C", place, "rev-parse", "HEAD") == (0, commit)
        assert in_container(bed, reference, "git", "-C", place, "status", "--short") == (0, "")
        _, cloned = in_container(bed, reference, "cat", "/opt/manifest.d/git-clone.yaml")
        assert re.search(
            rf"^{Path(place).name}:\n(  .*\n)*?  latest_verified_commit: {commit}$", cloned, re.MULTILINE
        )
    described = json.loads(bed.docker("image", "inspect", reference).stdout)[0]["Config"]
    assert described["Labels"] == {"org.opencontainers.image.created": str(spec.date)}
    assert {f"BUILD_DATE={spec.date}", "XLA_FLAGS="} <= set(described["Env"])


@pytest.mark.docker
def test_nights_of_a_release_differ_in_one_layer(bed: Bed) -> None:
    parts = []
    for number in (16, 17):
        bed.publish(night_of(day(number)))
        _, index = bed.repository.get(night_of(day(number)).tag)
        assert [each["platform"]["architecture"] for each in index["manifests"]] == ["amd64", "arm64"]
        _, manifest = bed.repository.get(index["manifests"][0]["digest"])
        parts.append([each["digest"] for each in manifest["layers"]])
    assert parts[0][:3] == parts[1][:3]
    assert parts[0][3] != parts[1][3]


@pytest.mark.docker
def test_flags_are_the_images_own(bed: Bed) -> None:
    reference = pulled(bed, dataclasses.replace(night_of(day(18)), flags="--xla_cpu_use_thunk_runtime=false"))
    assert in_container(bed, reference, "printenv", "XLA_FLAGS") == (0, "--xla_cpu_use_thunk_runtime=false")


@pytest.mark.docker
def test_a_missing_day_has_no_tag_and_one_of_another_platform_cant_be_pulled(bed: Bed) -> None:
    missing, foreign = faulty(Fault.MISSING), faulty(Fault.ARM64_ONLY)
    assert bed.publish(missing) is None
    assert "manifest unknown" in refusal(bed, missing.date)
    assert bed.publish(foreign)
    assert "no matching manifest for linux/amd64" in refusal(bed, foreign.date)


@pytest.mark.docker
def test_imports_fail_and_hang(bed: Bed) -> None:
    code, said = in_container(bed, pulled(bed, faulty(Fault.BROKEN)), "python3", "-c", SAY)
    assert code == 1
    assert "ImportError: libcudart.so.12" in said
    hanging = pulled(bed, faulty(Fault.HANGS))
    assert in_container(bed, hanging, "timeout", "5", "python3", "-c", SAY) == (124, "")


@pytest.mark.docker
def test_sources_without_git_and_dirty_ones(bed: Bed) -> None:
    bare, dirty, gitless = map(faulty, (Fault.NO_DOT_GIT, Fault.DIRTY, Fault.NO_GIT))
    assert in_container(bed, pulled(bed, bare), "ls", "-A", bare.source("jax")) == (
        0,
        "README.md\njax\nthird_party",
    )
    reference, place = pulled(bed, dirty), dirty.source("xla")
    assert in_container(bed, reference, "git", "-C", place, "status", "--short", "--branch") == (
        0,
        "## HEAD (no branch)\n M README.md",
    )
    assert in_container(bed, reference, "git", "-C", place, "rev-parse", "HEAD") == (0, heads(dirty)["xla"])
    code, said = in_container(bed, pulled(bed, gitless), "git", "--version")
    assert code == 127
    assert "executable file not found" in said


@pytest.mark.docker
def test_a_pruned_night_is_unknown_by_tag_and_by_digest(bed: Bed) -> None:
    spec = faulty(Fault.PRUNED)
    digest = bed.publish(spec)
    assert digest
    _, index = bed.repository.get(spec.tag)
    bed.prune(spec.date)
    assert "manifest unknown" in refusal(bed, spec.date)
    for gone in (digest, index["manifests"][0]["digest"]):
        with pytest.raises(BedError, match="404"):
            bed.repository.get(gone)
    assert bed.publish(spec) == digest


@pytest.mark.docker
def test_a_moved_tag_stands_for_another_image(bed: Bed) -> None:
    spec = faulty(Fault.MOVED)
    before = bed.publish(spec)
    after = bed.move(spec.date, OLD)
    assert before != after
    assert bed.repository.get(spec.tag)[0] == after
    assert bed.docker("pull", "--quiet", bed.reference(spec.date)).returncode == 0
    assert in_container(bed, bed.reference(spec.date), "python3", "-c", SAY) == (0, f"{OLD} 6")
    assert bed.move(spec.date, NEW) not in {before, after}


@pytest.mark.docker
def test_it_leaves_nothing_behind(bed: Bed, tmp_path: Path) -> None:
    with running_bed(tmp_path, bed.cache) as second:
        base = bed_images.layers(OLD, bed.cache, print)[0].file
        assert second.docker("import", str(base), "base").returncode == 0
        started = second.docker("run", "--detach", "--network", "none", "base", "sleep", "600")
        assert started.returncode == 0, started.stderr
        assert bed_images.mounts(tmp_path)
        daemon = Path("/proc", (tmp_path / "dockerd.pid").read_text(encoding="utf-8").strip())
        assert daemon.is_dir()
    assert not bed_images.mounts(tmp_path)
    assert not daemon.is_dir()
    lines = [each.read_bytes() for each in Path("/proc").glob("[0-9]*/cmdline") if each.parent.name != "self"]
    assert not [line for line in lines if str(tmp_path).encode() in line]
    assert not {"data", "exec", "registry"} & {each.name for each in tmp_path.iterdir()}
    assert bed.docker("version").returncode == 0
