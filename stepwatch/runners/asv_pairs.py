"""What is a commit to asv, where two repositories are under test?

A pair: `jax@0.10.2+xla@0.10.2`, under the 40 hex digits of `pair_id("0.10.2", "0.10.2")`. This asv plugin stands in
for a repository. It has no history to look into; it keeps a ledger, a JSON file that asv.conf.json names as `repo`:

    {"pairs": {"<40 hex digits>": {"name": "jax@0.10.2+xla@0.10.2", "at": "2026-05-11T00:00:00+00:00"}}}

A pair enters it when it is first named, with the time it is then. Edit `at` to put an older pair in its place: the
order of the graphs is the order of these times.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from asv.repo import NoSuchNameError, Repo
from asv.util import UserError

from stepwatch.core.model import pair_id

_PAIR = re.compile(r"jax@(?P<jax>[^@+\s]+)\+xla@(?P<xla>[^@+\s]+)")
_HASH = re.compile(r"[0-9a-f]{6,40}")


class PairRepo(Repo):  # type: ignore[misc]  # asv has no types
    """The ledger of pairs, asked as asv asks a repository."""

    dvcs = "pairs"
    _default_branch = "pairs"

    def __init__(self, url: str, mirror_path: str) -> None:
        del mirror_path  # there is nothing to mirror
        self._path = Path(url)

    @classmethod
    def url_match(cls, url: str) -> bool:
        """Never: the configuration says `"dvcs": "pairs"`."""
        del url
        return False

    def pull(self) -> None:
        """Nothing to fetch."""

    def checkout(self, path: str, commit_hash: str) -> None:
        """Refused: asv does not build pairs."""
        raise UserError(f"asv can't build {commit_hash} in {path}: use -E existing:PYTHON")

    def get_hash_from_name(self, name: str | None) -> str:
        """The hash of `jax@X+xla@Y` (which enters the ledger here), of a hash's beginning, or of the newest pair."""
        pairs = self._read()
        if name is None or name == self._default_branch:
            newest = _ordered(pairs)[-1:]
            if not newest:
                raise NoSuchNameError(f"no pair yet in {self._path}")
            return newest[0]
        if named := _PAIR.fullmatch(name):
            pair = pair_id(named["jax"], named["xla"])
            if pair not in pairs:
                self._write({**pairs, pair: {"name": name, "at": _now()}})
            return pair
        begun = [pair for pair in pairs if _HASH.fullmatch(name) and pair.startswith(name)]
        if len(begun) != 1:
            raise NoSuchNameError(
                f"{name!r} is neither like jax@0.10.2+xla@0.10.2 nor the hash of one known pair"
            )
        return begun[0]

    def get_name_from_hash(self, commit: str) -> str | None:
        """The printed pair, None where it is unknown."""
        pair = self._read().get(commit)
        return pair["name"] if pair else None

    def get_hash_from_parent(self, name: str) -> str:
        """The pair before this one in time."""
        ordered = _ordered(self._read())
        position = ordered.index(self.get_hash_from_name(name))
        if position == 0:
            raise NoSuchNameError(f"{name} is the oldest pair in {self._path}")
        return ordered[position - 1]

    def get_date(self, commit: str) -> int:
        """A pair's time in milliseconds since 1970, as asv counts."""
        pair = self._read().get(commit)
        if pair is None:
            raise NoSuchNameError(commit)
        return round(_at(pair).timestamp() * 1000)

    def get_date_from_name(self, name: str) -> int:
        """Likewise, by any name."""
        return self.get_date(self.get_hash_from_name(name))

    def get_tags(self) -> dict[str, str]:
        """Every pair under its printed name, so that graphs are labelled with it."""
        return {pair["name"]: commit for commit, pair in self._read().items()}

    def get_branch_commits(self, branch: str | None) -> list[str]:
        """All pairs, newest first; there is one branch."""
        del branch
        return _ordered(self._read())[::-1]

    def get_revisions(self, commits: Iterable[str]) -> dict[str, int]:
        """Each pair's position in time."""
        wanted = set(commits)
        return {pair: position for position, pair in enumerate(_ordered(self._read())) if pair in wanted}

    def get_range_spec(self, commit_a: str, commit_b: str) -> str:
        """After `commit_a`, through `commit_b`."""
        return f"{commit_a}..{commit_b}"

    def get_new_range_spec(self, latest_result: str, branch: str | None = None) -> str:
        """Whatever came after `latest_result`."""
        return self.get_range_spec(latest_result, branch or self._default_branch)

    def get_hashes_from_range(self, range_spec: str) -> list[str]:
        """The pairs of `A..B`, of `NAME^!`, or from the first through NAME; newest first."""
        ordered = _ordered(self._read())
        after, dots, through = range_spec.rpartition("..")
        only = through.removesuffix("^!")
        last = ordered.index(self.get_hash_from_name(only)) if only else len(ordered) - 1
        if only != through:
            return [ordered[last]]
        first = ordered.index(self.get_hash_from_name(after)) + 1 if dots else 0
        return ordered[first : last + 1][::-1]

    def _read(self) -> dict[str, dict[str, str]]:
        if not self._path.exists():
            return {}
        try:
            pairs: dict[str, dict[str, str]] = json.loads(self._path.read_text(encoding="utf-8"))["pairs"]
            for pair in pairs.values():
                _at(pair)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self._path} is no ledger of pairs: {error!r}") from error
        return pairs

    def _write(self, pairs: dict[str, dict[str, str]]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        beside.write_text(json.dumps({"pairs": pairs}, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        beside.replace(self._path)


def _ordered(pairs: dict[str, dict[str, str]]) -> list[str]:
    """The hashes in order of time, then of name, so that equal times have an order too."""
    return sorted(pairs, key=lambda pair: (_at(pairs[pair]), pairs[pair]["name"]))


def _at(pair: dict[str, str]) -> dt.datetime:
    at = dt.datetime.fromisoformat(pair["at"])
    return at if at.tzinfo else at.replace(tzinfo=dt.UTC)


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
