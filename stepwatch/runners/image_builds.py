"""How is a pair of commits built in a nightly image, and how do we know that it was?

The image's own build script is run in a container of it, with network, on sources that come from bare mirrors. What is there
then becomes an image beside it, so a pair is built once, whoever asks. Builds in one image share a cache by contents, and what
the last one left over, so that the next has little to do. That may leave something as it was, so a build must show itself: JAX's
installed files are the commit's own, and the shared objects are not those of a pair whose sources of them are others. What does
not is built once more, without the leftovers; objects that are equal then are no fault, but a commit that changes nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from docker import DockerClient, errors
from docker.models.containers import Container
from docker.types import Mount

from stepwatch.core.model import JAX, XLA, CommitPair, Image, Night, Outcome, digest
from stepwatch.runners import image_build
from stepwatch.runners.containers import DockerRunner
from stepwatch.runners.engine import CACHE, LABEL, LEFT, connect, local_name, tidy, volume_name, watch
from stepwatch.runners.processes import locked
from stepwatch.runners.protocol import Failure, Opened, Process, UnreachableError
from stepwatch.runners.repositories import Mirror

BUILD = "build-jax.sh --sm local --src-path-jax {jax} --src-path-xla {xla} --bazel-cache {cache}"
INSIDE, MIRRORS, SHARED = "/stepwatch/inside", "/stepwatch/repositories", "/stepwatch/cache"
KEPT_S = 14 * 24 * 3600.0  # how long an image of a pair is kept that nobody uses
SAID_EVERY_S = 60.0
COMPILED = ("jaxlib", "build", "third_party", "WORKSPACE", "MODULE.bazel", ".bazelrc")  # of JAX's sources
_WHY = re.compile(r"\b(error|fatal)\b", re.IGNORECASE)
# what is no commit's fault
_PASSES = re.compile(
    r"no space left on device|could not resolve host|temporary failure in name resolution|connection (timed out|refused)",
    re.IGNORECASE,
)
Answers = dict[str, Any]


@dataclass(kw_only=True)
class ImageBuildRunner:
    """Nights in their images by `docker`, and pairs built in the image `inside`.

    `command` is run in the container's shell for at most `limit_s` and in `network`; {jax}, {xla} and {cache} in it stand for the
    folders of the sources and of a cache. `folder` keeps what each build has said of itself.
    """

    docker: DockerRunner
    mirrors: Mapping[str, Mirror]
    folder: Path
    command: str = BUILD
    limit_s: float = 6 * 3600
    network: str = "bridge"
    say: Callable[[str], None] = lambda _: None
    inside: Image | None = None

    def beside(self, pair: CommitPair) -> tuple[str, ...]:
        """Nothing: what stands beside a pair is in its image."""
        del pair
        return ()

    def within(self, image: Image | None) -> Self:
        """The same, which builds in that image."""
        return replace(self, inside=image)

    def has(self, pair: CommitPair) -> bool:
        """Whether a pair has been built in the image."""
        return self.inside is not None and self._note(self.inside, pair).is_file()

    def open(self, pair: CommitPair, *, like: CommitPair | None = None) -> Opened | Failure:
        """A pair as it was built in the image, or is now; one that does not build is BUILD_FAILED.

        Raises:
            UnreachableError: the engine or the registry does not answer, a disk is full, or a build wants what can't be reached.
        """
        del like
        if self.inside is None or pair.jax.is_release or pair.xla.is_release:
            reason = f"{pair} can't be built: commits are built in the image of a night, and none is named"
            return Failure(outcome=Outcome.BUILD_FAILED, reason=reason)
        image, note = self.inside, self._note(self.inside, pair)
        # one build at a time in an image: they share what is left over
        with connect(self.docker.engine) as client, locked(self.folder / f"{self._recipe(image)}.lock"):
            made = self._known(client, note)
            if made is None:
                asked = self.docker.answers(client, image)
                if isinstance(asked, Failure):
                    return asked
                made = self.docker.unless_cancelled(self._build, client, image, pair, asked["home"])
        if isinstance(made, Failure):
            return made
        os.utime(note)
        notes = (f"built in {image.reference}",)
        return self.docker.described(made["answers"], image, pair, notes, built=made["image"])

    def open_night(self, night: Night) -> Opened | Failure:
        """The image of a night, as it is."""
        return self.docker.open_night(night)

    def bench(self, opened: Opened, process: Process) -> Mapping[str, Any] | Failure:
        """Run one process of a suite; what it has loaded must be what was built."""
        document = self.docker.bench(opened, process)
        if isinstance(document, Failure) or not opened.stamp or "objects" not in document:
            return document
        wrong = [name for name, found in document["objects"].items() if opened.stamp.get(name) != found]
        package = str(Path(document["loaded"]["jax_file"]).parent)
        if wrong or not document["objects"] or package not in opened.stamp:
            what = ", ".join(wrong[:3]) or (package if document["objects"] else "no shared object of jaxlib")
            reason = f"{opened.environment.pair}: what was loaded is not what was built: {what}"
            return Failure(outcome=Outcome.STALE_BUILD, reason=reason)
        return document

    def cancel(self) -> None:
        """End what runs now and let nothing more be started."""
        self.docker.cancel()

    def tidy(self, needed: Sequence[str]) -> list[str]:
        """Remove what nobody waits for or needs: containers, images of nights, and those of pairs after two weeks without use.

        Raises:
            UnreachableError: the engine does not answer.
        """
        kept = []
        for note in self.folder.glob("*-*.json"):
            if time.time() - note.stat().st_mtime > KEPT_S:
                note.unlink(missing_ok=True)
            else:
                with contextlib.suppress(OSError, ValueError):
                    kept.append(json.loads(note.read_text(encoding="utf-8"))["image"])
        with connect(self.docker.engine) as client:
            return tidy(client, self.docker.machine, needed, kept)

    def _build(self, client: DockerClient, image: Image, pair: CommitPair, home: str) -> Answers | Failure:
        """Build a pair, once more without what is left over where it does not show itself, and keep it."""
        made = self._run(client, image, pair, home, clean=False)
        if isinstance(made, Failure):
            return made
        doubt = self._fault(made["answers"], pair) or self._unmoved(image, pair, made["answers"]["stamp"])
        if doubt is not None:
            self.say(f"{pair} is built once more, from nothing: {doubt}")
            made = self._run(client, image, pair, home, clean=True)
        if isinstance(made, Failure):
            return made
        fault = self._fault(made["answers"], pair)
        if fault is not None:
            return Failure(
                outcome=Outcome.STALE_BUILD, reason=f"{pair} was not built, also from nothing: {fault}"
            )
        note = self._note(image, pair)
        scratch = note.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(made), encoding="utf-8")
        scratch.replace(note)
        return made

    def _run(
        self, client: DockerClient, image: Image, pair: CommitPair, home: str, *, clean: bool
    ) -> Answers | Failure:
        """Build a pair in a container of the image: the image that it became, and what that says of itself."""
        if clean:
            with contextlib.suppress(errors.NotFound):
                client.volumes.get(volume_name(image.digest, LEFT)).remove()
        commits = {JAX: pair.jax.ref, XLA: pair.xla.ref}
        program = f'exec "$(command -v python3 || command -v python)" {INSIDE}/image_build.py "$@"'
        command = self.command.replace("{cache}", SHARED)
        words = [
            *("sh", "-c", program, "sh", command),
            *(f"{name}={MIRRORS}/{name}.git:{commit}" for name, commit in commits.items()),
        ]
        mounts = [
            Mount(INSIDE, str(Path(image_build.__file__).parent), type="bind", read_only=True),
            *(
                Mount(
                    f"{MIRRORS}/{name}.git",
                    str(self.mirrors[name].folder.resolve()),
                    type="bind",
                    read_only=True,
                )
                for name in commits
            ),
            *(
                Mount(place, volume_name(image.digest, use), type="volume", labels={LABEL: use})
                for use, place in ((CACHE, SHARED), (LEFT, f"{home}/.cache"))
            ),
        ]
        self.say(f"building {pair} in {image.reference}")
        with (
            locked(self.docker.lock),  # it would disturb who measures
            self.docker.container(
                client, image.digest, words, limit_s=self.limit_s, mounts=mounts, building_in=self.network
            ) as container,
        ):
            status = self._watch(container, pair)
            said = container.logs(stdout=True, stderr=False).decode("utf-8", "replace")
            log = container.logs().decode("utf-8", "replace")
            if status != 0:
                return self._failure(pair, status, log)
            made = container.commit(conf={"Labels": {LABEL: "built"}})
            made.tag(local_name(str(made.id)))
        return {
            "pair": str(pair),
            "refs": [*commits.values()],
            "image": str(made.id),
            "answers": json.loads(said.splitlines()[-1]),
        }

    def _watch(self, container: Container, pair: CommitPair) -> int | None:
        """The exit status of a build; how far it is, is said every minute."""
        begun = time.monotonic()
        while (left := self.limit_s - (time.monotonic() - begun)) > 0:
            status = watch(container, min(SAID_EVERY_S, left))
            if status is not None:
                return status
            last = container.logs(tail=1).decode("utf-8", "replace").strip()
            self.say(f"building {pair}: {(time.monotonic() - begun) / 60:.0f} min; {last[-200:]}")
        return None

    def _failure(self, pair: CommitPair, status: int | None, log: str) -> Failure:
        """Why a build has failed.

        Raises:
            UnreachableError: it was not the commit's fault.
        """
        lines = [line.strip() for line in log.splitlines() if line.strip()][-200:] or ["no output"]
        passing = next((line for line in lines[-20:] if _PASSES.search(line)), None)
        if passing is not None:
            raise UnreachableError(f"{pair} can't be built now: {passing[-300:]}")
        last = next((line for line in reversed(lines) if _WHY.search(line)), lines[-1])
        how = f"not ended after {self.limit_s:g} s" if status is None else f"exit status {status}"
        reason = f"{pair} does not build: {how}: {last[-300:]}"
        return Failure(outcome=Outcome.BUILD_FAILED, reason=reason, log=log[-20_000:])

    def _fault(self, answers: Answers, pair: CommitPair) -> str | None:
        """Why what is in the image can't be this pair."""
        heads = {name: answers["repositories"][name].get("head") for name in (JAX, XLA)}
        for name, revision in ((JAX, pair.jax), (XLA, pair.xla)):
            if heads[name] != revision.ref:
                return f"its sources of {name} are at {heads[name]}"
        if answers["stale"]:
            return f"not of this commit: {', '.join(answers['stale'][:3])}"
        if not _objects(answers["stamp"]):
            return "jaxlib has no shared object"
        return None

    def _unmoved(self, image: Image, pair: CommitPair, stamp: Mapping[str, str]) -> str | None:
        """That the shared objects are those of a pair whose sources of them are others."""
        for note in sorted(self.folder.glob(f"{self._recipe(image)}-*.json")):
            other = json.loads(note.read_text(encoding="utf-8"))
            refs = pair.jax.ref, pair.xla.ref
            if _objects(other["answers"]["stamp"]) == _objects(stamp) and not self._is_one(
                refs, other["refs"]
            ):
                return f"its shared objects are those of {other['pair']}"
        return None

    def _is_one(self, refs: Sequence[str], others: Sequence[str]) -> bool:
        """Whether two pairs have the same sources of shared objects: XLA, and what of JAX is compiled."""
        (jax, xla), (other_jax, other_xla) = refs, others
        mirror = self.mirrors[JAX]
        return xla == other_xla and all(
            mirror.tree(jax, part) == mirror.tree(other_jax, part) for part in COMPILED
        )

    def _known(self, client: DockerClient, note: Path) -> Answers | None:
        """What a build has said, where its image is still there."""
        with contextlib.suppress(OSError, ValueError, errors.ImageNotFound):
            made: Answers = json.loads(note.read_text(encoding="utf-8"))
            client.images.get(local_name(made["image"]))
            return made
        return None

    def _recipe(self, image: Image) -> str:
        """What a build depends on beside the pair."""
        return digest([image.digest, self.command])[:12]

    def _note(self, image: Image, pair: CommitPair) -> Path:
        """Where the answers of a build are kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{self._recipe(image)}-{digest([pair.jax.ref, pair.xla.ref])[:16]}.json"


def _objects(stamp: Mapping[str, str]) -> dict[str, str]:
    """The shared objects of a build."""
    return {name: digits for name, digits in stamp.items() if ".so" in Path(name).name}
