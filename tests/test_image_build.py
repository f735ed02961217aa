"""Are sources that somebody left in any state put as a commit has them, before they are built in an image?"""

from __future__ import annotations

from pathlib import Path

import pytest
from bed_nights import git

from stepwatch.runners import image_build

WHO = ("-c", "user.name=A Developer", "-c", "user.email=developer@example.com")


def committed(folder: Path, name: str, text: str) -> str:
    """A commit that writes a file."""
    (folder / name).write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, *WHO, "commit", "--quiet", "--message", name)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def opt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for /opt of an image; submodules may come from a folder here."""
    monkeypatch.setattr(image_build, "OPT", tmp_path / "opt")
    for name, value in (("COUNT", "1"), ("KEY_0", "protocol.file.allow"), ("VALUE_0", "always")):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    return tmp_path / "opt"


@pytest.fixture
def mirror(tmp_path: Path) -> tuple[Path, str, str]:
    """A bare mirror with a submodule, and two commits of it."""
    part, upstream = tmp_path / "part", tmp_path / "upstream"
    for each in (part, upstream):
        each.mkdir()
        git(each, "init", "--quiet")
    committed(part, "part.txt", "one")
    allowed = ("-c", "protocol.file.allow=always")
    git(upstream, *allowed, "submodule", "--quiet", "add", str(part), "part")
    old = committed(upstream, "code.py", "old")
    new = committed(upstream, "code.py", "new")
    git(tmp_path, "clone", "--quiet", "--bare", str(upstream), "mirror.git")
    return tmp_path / "mirror.git", old, new


@pytest.mark.parametrize("name", ["jax", "jax-source"])
def test_what_was_there_is_gone_and_the_commit_is_whole(
    opt: Path, mirror: tuple[Path, str, str], name: str
) -> None:
    bare, old, new = mirror
    folder = opt / name
    folder.mkdir(parents=True)
    assert image_build.place("jax", bare, new) == folder, "the image's own folder"
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git/info/exclude").write_text("dist\n", encoding="utf-8")
    for left in ("dist/jaxlib-0.4.20.whl", "untracked.py", "part/more.txt", ".git/index.lock"):
        (folder / left).parent.mkdir(exist_ok=True)
        (folder / left).write_text("left", encoding="utf-8")
    (folder / "code.py").write_text("by hand", encoding="utf-8")
    (folder / "part/part.txt").write_text("by hand", encoding="utf-8")
    image_build.place("jax", bare, old)
    assert (folder / "code.py").read_text(encoding="utf-8") == "old"
    assert (folder / "part/part.txt").read_text(encoding="utf-8") == "one"
    assert not (folder / "part/more.txt").exists()
    assert sorted(each.name for each in folder.iterdir()) == [".git", ".gitmodules", "code.py", "part"]
    assert git(folder, "rev-parse", "HEAD") == old


def test_an_image_without_sources_gets_them(opt: Path, mirror: tuple[Path, str, str]) -> None:
    bare, old, _ = mirror
    assert image_build.place("xla", bare, old) == opt / "xla"
    assert (opt / "xla/code.py").read_text(encoding="utf-8") == "old"


def test_a_commit_that_the_mirror_has_not_ends_the_build(opt: Path, mirror: tuple[Path, str, str]) -> None:
    with pytest.raises(SystemExit) as ended:
        image_build.place("jax", mirror[0], "0" * 40)
    assert str(ended.value) == f"git checkout failed in {opt / 'jax'}"
