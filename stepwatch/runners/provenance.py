"""From which pair was an image built, and what of that is to be doubted?

Truth in this order: HEAD of the sources in the image, what was really cloned (`git-clone.yaml`), what was meant to be
(`manifest.yaml`), and then for JAX what its packages say they were built from, for XLA the commit that JAX's sources pin. What is not
the first of these, or whose tree was changed, is said: a reader should know.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from stepwatch.core.model import JAX, REPOSITORIES, CommitPair, Image, Revision

COMMIT = re.compile(r"[0-9a-f]{40}")
Answers = Mapping[str, Any]


def pair_of(answers: Answers, image: Image, night: dt.datetime) -> tuple[CommitPair, tuple[str, ...]] | str:
    """The pair and what is to be doubted of it, or the sentence that says which commit can't be told.

    `answers` are those of `image_question`; a commit whose time is not known gets that of the image, else the night's.
    """
    found, notes = {}, []
    for repository in REPOSITORIES:
        commit, doubts = _commit(answers, repository)
        if commit is None:
            return (
                f"{image.reference} does not tell its commit of {repository}: there is no .git in /opt/{repository} or"
                f" /opt/{repository}-source, nothing in /opt/manifest.d, and no commit in its packages"
            )
        at = answers["repositories"][repository].get("at") if commit == _head(answers, repository) else None
        if at is None:
            doubts.append(f"when {repository} {commit[:12]} was committed is not known")
        when = dt.datetime.fromtimestamp(at, dt.UTC) if at is not None else image.created or night
        found[repository] = Revision(repository=repository, ref=commit, committed_at=when)
        notes += doubts
    return CommitPair(**found), tuple(notes)


def _commit(answers: Answers, repository: str) -> tuple[str | None, list[str]]:
    """The commit, and what is to be doubted of it."""
    where = answers["repositories"][repository]
    head = _head(answers, repository)
    if head is not None:
        return head, list(_doubts(where))
    for source, commit in _others(answers, repository):
        if commit is not None:
            return commit, [f"the commit of {repository} is taken from {source}: {where['how']} in the image"]
    return None, []


def _head(answers: Answers, repository: str) -> str | None:
    return _known(answers["repositories"][repository].get("head"))


def _others(answers: Answers, repository: str) -> Iterator[tuple[str, str | None]]:
    for path, text in answers["manifests"].items():
        yield path, _of_manifest(text, repository)
    if repository == JAX:
        yield "its packages", _known(answers["wheel"])
    else:
        yield "the pin in JAX's sources", _known(answers["pin"])


def _doubts(where: Mapping[str, Any]) -> Iterator[str]:
    folder, changed = where["folder"], where.get("changed")
    if where.get("branch") is None:
        yield f"{folder}: HEAD is detached"
    if where["how"] == "files":
        yield f"{folder}: there is no git in the image, so nobody can say whether its files were changed"
    elif changed is None:
        yield f"{folder}: git could not say whether files were changed"
    elif changed:
        shown = ", ".join(changed[:3]) + (" and more" if len(changed) > 3 else "")
        count = f"{len(changed)} files differ" if len(changed) > 1 else "a file differs"
        yield f"{folder}: {count} from HEAD: {shown}"


def _of_manifest(text: str, repository: str) -> str | None:
    """The commit that a manifest has for a repository, under its own name or that of its folder."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    entries = document if isinstance(document, dict) else {}
    for name in (repository, f"{repository}-source"):
        entry = entries.get(name)
        if isinstance(entry, dict) and (commit := _known(entry.get("latest_verified_commit"))):
            return commit
    return None


def _known(commit: Any) -> str | None:
    return commit if isinstance(commit, str) and COMMIT.fullmatch(commit) else None
