"""Is a registry asked as the distribution API says, are its answers checked, and is each fault what it is?

Everything goes over real HTTP to a registry of the tests' own (fake_registry.py), which insists on what real ones do.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import ssl
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bed_planted
import pytest
from fake_registry import (
    DOCKER_LIST,
    DOCKER_MANIFEST,
    HTML,
    OCI_INDEX,
    OCI_MANIFEST,
    FakeRegistry,
    Fault,
    basic,
    error,
)

from stepwatch.core.model import CommitPair, Image, Pairing, SourceKind
from stepwatch.runners import nightlies, registry
from stepwatch.runners.commits import CommitNights
from stepwatch.runners.images import (
    EARLIER_IMAGE,
    IMAGE,
    Absence,
    Absent,
    Reference,
    parse_reference,
    template_fault,
)
from stepwatch.runners.nightlies import EarlierImage, RegistryNights
from stepwatch.runners.protocol import UnreachableError
from stepwatch.runners.registry import Registry, RegistryError
from stepwatch.runners.repositories import Mirror

AMD = {"os": "linux", "architecture": "amd64"}
ARM = {"os": "linux", "architecture": "arm64"}
TAG = "jax-2024-09-16"
FULL = AMD | {
    "created": "2024-09-15T07:00:00.123456789Z",
    "config": {
        "Labels": {"org.opencontainers.image.created": "2024-09-16", "maintainer": "NVIDIA"},
        "Env": ["PATH=/usr/bin", "XLA_FLAGS=--xla_a=1 --xla_b=2", "BUILD_DATE=2024-09-14", "EMPTY=", "UNSET"],
    },
}
TRUST = ssl.create_default_context()
SOME_DIGEST = "sha256:" + "a" * 64


def client(**changes: Any) -> Registry:
    return Registry(**{"tries": 3, "backoff_s": 0.005} | changes)


@pytest.fixture(autouse=True)
def one_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine trusts is read once: each reading takes 60 ms, and nothing here goes by https."""
    monkeypatch.setattr(ssl, "create_default_context", lambda: TRUST)


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with FakeRegistry() as started:
        yield started


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited between tries, without waiting."""
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    return waits


def seen_image(found: Image | Absent) -> Image:
    assert isinstance(found, Image), found
    return found


def utc(hour: int = 0, minute: int = 0, microsecond: int = 0) -> dt.datetime:
    return dt.datetime(2024, 9, 16, hour, minute, microsecond=microsecond, tzinfo=dt.UTC)


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts", "printed"),
    [
        ("ghcr.io/nvidia/jax:jax-2024-09-16", ("ghcr.io", "nvidia/jax", TAG, None), None),
        ("GHCR.io/nvidia/jax:X_1", ("ghcr.io", "nvidia/jax", "X_1", None), "ghcr.io/nvidia/jax:X_1"),
        ("127.0.0.1:5000/nvidia/jax:x", ("127.0.0.1:5000", "nvidia/jax", "x", None), None),
        ("[::1]:5000/jax:x", ("[::1]:5000", "jax", "x", None), None),
        ("localhost/a/b/c_d/e--f:x", ("localhost", "a/b/c_d/e--f", "x", None), None),
        (f"h.io/n@{SOME_DIGEST}", ("h.io", "n", None, SOME_DIGEST), None),
        (f"h.io/n:x@{SOME_DIGEST}", ("h.io", "n", "x", SOME_DIGEST), None),
        ("ghcr.io#nvidia/jax:x", ("ghcr.io", "nvidia/jax", "x", None), "ghcr.io/nvidia/jax:x"),
    ],
)
def test_a_full_name_is_taken_apart(text: str, parts: tuple[str | None, ...], printed: str | None) -> None:
    found = parse_reference(text)
    assert isinstance(found, Reference)
    assert (found.host, found.repository, found.tag, found.digest) == parts
    assert str(found) == (printed or text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ubuntu:22.04", "does not name its registry"),
        ("nvidia/jax:x", "does not name its registry"),
        ("", "does not name its registry"),
        ("http://127.0.0.1:5000/nvidia/jax:x", "has a scheme in front"),
        ("docker://ghcr.io/nvidia/jax:x", "has a scheme in front"),
        ("ghcr.io/nvidia/jax", "has neither a tag nor a digest"),
        ("ghcr.io/Nvidia/jax:x", "is not the name of an image"),
        ("ghcr.io/nvidia/jax:a b", "is not the name of an image"),
        ("ghcr.io/nvidia/jax:x\n", "is not the name of an image"),
        ("ghcr.io/nvidia/../jax:x", "is not the name of an image"),
        ("ghcr.io/nvidia/jax@sha256:abc", "is not the name of an image"),
        ("user@ghcr.io/nvidia/jax:x", "is not the name of an image"),
        ("ghcr.io:99999/nvidia/jax:x", "does not name a host"),
    ],
)
def test_anything_else_is_refused_in_a_sentence(text: str, reason: str) -> None:
    found = parse_reference(text)
    assert isinstance(found, str)
    assert found.startswith(f"{text!r} {reason}")
    assert "; accepted is HOST/NAME:TAG or HOST/NAME@sha256:DIGEST" in found
    with pytest.raises(RegistryError, match=re.escape(found)):
        client().look(text)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("ghcr.io", "https://ghcr.io"),
        ("127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("127.8.9.1:80", "http://127.8.9.1:80"),
        ("localhost:1", "http://localhost:1"),
        ("[::1]:5000", "http://[::1]:5000"),
        ("127.0.0.1.example.com", "https://127.0.0.1.example.com"),
        ("localhost.example.com:5000", "https://localhost.example.com:5000"),
        ("10.0.0.1:5000", "https://10.0.0.1:5000"),
        ("docker.io", "https://registry-1.docker.io"),
    ],
)
def test_only_a_loopback_registry_is_spoken_to_by_http(host: str, origin: str) -> None:
    assert Reference(host=host, repository="n", tag="x").origin == origin


# --- what an image is -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("top", "below"),
    [(OCI_INDEX, OCI_MANIFEST), (DOCKER_LIST, DOCKER_MANIFEST), (OCI_INDEX, DOCKER_MANIFEST)],
)
def test_an_index_gives_the_manifest_of_the_platform(fake: FakeRegistry, top: str, below: str) -> None:
    arm = fake.put_image(kind=below, architecture="arm64")
    amd = fake.put_image(kind=below, configuration=FULL)
    index = fake.put_index(
        TAG, [{"digest": arm, "platform": ARM | {"variant": "v8"}}, {"digest": amd, "platform": AMD}], top
    )

    found = client().look(fake.name(TAG))

    assert found == Image(
        reference=fake.name(TAG),
        index=index,
        digest=amd,
        platform="linux/amd64",
        platforms=("linux/arm64", "linux/amd64"),
        labels={"org.opencontainers.image.created": "2024-09-16", "maintainer": "NVIDIA"},
        variables={
            "PATH": "/usr/bin",
            "XLA_FLAGS": "--xla_a=1 --xla_b=2",
            "BUILD_DATE": "2024-09-14",
            "EMPTY": "",
        },
        created=dt.datetime(2024, 9, 16, tzinfo=dt.UTC),
    )
    # two manifests and a configuration, and no layer
    assert [path.split("/")[4] for path in fake.paths()] == ["manifests", "manifests", "blobs"]
    for asked in ("linux/arm64", "linux/arm64/v8"):
        assert seen_image(client().look(fake.name(TAG), asked)).digest == arm


@pytest.mark.parametrize("kind", [OCI_MANIFEST, DOCKER_MANIFEST])
def test_a_manifest_alone_has_its_platform_in_the_configuration(fake: FakeRegistry, kind: str) -> None:
    digest = fake.put_image(TAG, kind=kind)
    found = seen_image(client().look(fake.name(TAG)))
    assert (found.index, found.digest) == (digest, digest)
    assert found.platforms == ("linux/amd64",)

    fake.put_image("arm", kind=kind, architecture="arm", variant="v6")
    assert seen_image(client().look(fake.name("arm"), "linux/arm/v6")).platform == "linux/arm/v6"
    assert isinstance(client().look(fake.name("arm"), "linux/arm"), Absent)


def test_a_reference_by_digest_and_by_enroots_name(fake: FakeRegistry) -> None:
    digest = fake.put_image(TAG)
    assert seen_image(client().look(f"{fake.host}/nvidia/jax@{digest}")).digest == digest
    # the tag has moved on, the digest is what was meant
    assert seen_image(client().look(f"{fake.host}/nvidia/jax:gone@{digest}")).digest == digest
    assert seen_image(client().look(f"{fake.host}#nvidia/jax:{TAG}")).reference == fake.name(TAG)


def test_attestations_are_no_platforms(fake: FakeRegistry) -> None:
    amd = fake.put_image()
    noted = {"vnd.docker.reference.type": "attestation-manifest"}
    entries: list[dict[str, Any]] = [
        {"digest": SOME_DIGEST, "platform": AMD, "annotations": noted},
        {"digest": SOME_DIGEST, "platform": {"os": "unknown", "architecture": "unknown"}},
        {"digest": SOME_DIGEST},
        {"digest": amd, "platform": AMD},
        {"digest": SOME_DIGEST, "platform": AMD},
    ]
    fake.put_index(TAG, entries)
    found = seen_image(client().look(fake.name(TAG)))
    assert (found.digest, found.platforms) == (amd, ("linux/amd64",))


def test_an_image_for_other_platforms_is_a_gap(fake: FakeRegistry) -> None:
    arm = fake.put_image("alone", architecture="arm64")
    fake.put_index(TAG, [{"digest": arm, "platform": ARM}])
    fake.put_index(
        "two", [{"digest": arm, "platform": ARM}, {"digest": arm, "platform": ARM | {"os": "windows"}}]
    )
    fake.put_index("none", [])
    for tag, built in {
        "alone": "for linux/arm64 only",
        TAG: "for linux/arm64 only",
        "two": "for linux/arm64 and windows/arm64 only",
        "none": "for no platform that it names",
    }.items():
        assert client().look(fake.name(tag)) == Absent(
            kind=Absence.OTHER_PLATFORM,
            reason=f"{fake.name(tag)} was built {built}, and linux/amd64 is asked for",
        )
    with pytest.raises(RegistryError, match="'amd64' is no platform; accepted is one such as linux/amd64"):
        client().look(fake.name(TAG), "amd64")


@pytest.mark.parametrize(
    ("label", "date", "created", "time"),
    [
        ("2024-09-16T07:00:00Z", "2023-01-01", "2022-01-01", utc(7)),
        (None, "2024-09-16", "2022-01-01", utc()),
        ("yesterday", "", "2024-09-16T09:30:00.123456789+02:00", utc(7, 30, 123456)),
        (None, "Mon, 16 Sep 2024 07:00:00 GMT", None, utc(7)),
        (None, "Mon Sep 16 07:00:00 UTC 2024", None, utc(7)),
        (None, None, "1970-01-01T00:00:00Z", None),
        (None, None, "0001-01-01T00:00:00+14:00", None),
        (None, None, 17, None),
        (None, None, None, None),
    ],
)
def test_the_time_of_the_build(
    fake: FakeRegistry, label: str | None, date: str | None, created: Any, time: dt.datetime | None
) -> None:
    inside = {"Labels": {"org.opencontainers.image.created": label} if label else None}
    environment = [f"BUILD_DATE={date}"] if date is not None else None
    fake.put_image(TAG, configuration=AMD | {"created": created, "config": inside | {"Env": environment}})
    found = seen_image(client().look(fake.name(TAG)))
    assert found.created == time


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (
            {"schemaVersion": 1, "mediaType": "old", "fsLayers": []},
            "is no image that can be read: its manifest is old",
        ),
        ({"schemaVersion": 2, "config": {}, "manifests": []}, "is no image that can be read"),
        (
            {"config": {"digest": "sha256:../../../v2"}},
            "names 'sha256:../../../v2'; accepted is a sha256 digest",
        ),
        ({"config": [1]}, "names None; accepted is a sha256 digest"),
        ({"manifests": [{"digest": "../x", "platform": AMD}]}, "names '../x'; accepted is a sha256 digest"),
    ],
)
def test_what_is_no_image_is_refused(fake: FakeRegistry, document: Any, reason: str) -> None:
    fake.put("x", document, TAG)
    with pytest.raises(RegistryError, match=re.escape(reason)):
        client().look(fake.name(TAG))
    assert len(fake.seen) == 1


def test_a_chart_is_no_image(fake: FakeRegistry) -> None:
    fake.put_image(TAG, configuration={"name": "chart", "version": "1"})
    with pytest.raises(RegistryError, match="is no image: its configuration names no os and architecture"):
        client().look(fake.name(TAG))


# --- not found ------------------------------------------------------------------------------------------------------


def test_an_unknown_manifest_is_a_gap(fake: FakeRegistry) -> None:
    assert client().look(fake.name(TAG)) == Absent(
        kind=Absence.MISSING, reason=f"not published: {fake.name(TAG)} is not in the registry"
    )
    # the index is there, what it leads to was taken away
    fake.put_index(TAG, [{"digest": SOME_DIGEST, "platform": AMD}])
    assert client().look(fake.name(TAG)) == Absent(
        kind=Absence.MISSING,
        reason=f"{fake.name(TAG)} is in the registry, but the image for linux/amd64 that it names is not",
    )


@pytest.mark.parametrize(
    ("fault", "kind", "reason"),
    [
        (error(404, "NAME_UNKNOWN"), RegistryError, "has no repository nvidia/jax"),
        (error(404, "TEAPOT", "short"), RegistryError, r"answers 404 for .*: TEAPOT \(short\)"),
        (Fault(status=404, body=b"{}"), RegistryError, "answers 404 for .*: no reason"),
        (Fault(status=404, body=HTML), UnreachableError, "answers 404 for .*, and not in JSON"),
        (error(400, "X"), RegistryError, "answers 400"),
    ],
)
def test_any_other_answer_is_no_gap(
    fake: FakeRegistry, fault: Fault, kind: type[Exception], reason: str
) -> None:
    fake.faults.append(fault)
    with pytest.raises(kind, match=reason):
        client().look(fake.name(TAG))


# --- faults that pass -----------------------------------------------------------------------------------------------

PASSING = {
    "500": Fault(status=500),
    "503": Fault(status=503, body=HTML),
    "429": Fault(status=429),
    "closed": Fault(close=True),
    "broken off": Fault(body=b'{"schema', cut=True),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
@pytest.mark.parametrize("where", ["manifests", "blobs", "token"])
def test_what_passes_is_tried_again(fake: FakeRegistry, fault: Fault, where: str) -> None:
    fake.wants = "Bearer"
    fake.put_image(TAG)
    fake.faulty = where
    fake.faults.extend([fault, fault])
    assert isinstance(client().look(fake.name(TAG)), Image)
    assert not fake.faults


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (PASSING["500"], "answers 500 for"),
        (PASSING["503"], "answers 503 for"),
        (PASSING["429"], "answers 429 for"),
        (PASSING["closed"], "does not answer: RemoteDisconnected: Remote end closed connection"),
        (PASSING["broken off"], "breaks off its answers: IncompleteRead"),
    ],
)
def test_what_does_not_pass_is_unreachable(fake: FakeRegistry, fault: Fault, reason: str) -> None:
    fake.put_image(TAG)
    fake.faults.extend([fault] * 9)
    with pytest.raises(UnreachableError, match=f"^{re.escape(fake.host)} {reason}"):
        client().look(fake.name(TAG))
    assert len(fake.seen) == 3


def test_a_registry_that_is_not_there_or_too_slow_is_unreachable(fake: FakeRegistry) -> None:
    fake.faults.extend([Fault(stall=True)] * 2)
    with pytest.raises(UnreachableError, match=r"does not answer: ReadTimeoutError: Read timed out"):
        client(tries=2, timeout_s=0.05).look(fake.name(TAG))
    with FakeRegistry() as gone:
        host = gone.host
    with pytest.raises(UnreachableError, match=r"does not answer: \w+: .*Connection refused"):
        client().look(f"{host}/nvidia/jax:{TAG}")


def test_the_registry_says_how_long_to_wait(fake: FakeRegistry, slept: list[float]) -> None:
    fake.put_image(TAG)
    fake.faults.append(Fault(status=429, headers={"Retry-After": "7"}))
    assert isinstance(client().look(fake.name(TAG)), Image)
    assert [wait for wait in slept if wait] == [7]
    fake.faults.append(Fault(status=503, headers={"Retry-After": "86400"}))
    assert isinstance(client().look(fake.name(TAG)), Image)
    assert [wait for wait in slept if wait] == [7, registry.RETRY_AFTER_MAX_S]


def test_else_it_waits_longer_each_time(fake: FakeRegistry, slept: list[float]) -> None:
    fake.put_image(TAG)
    fake.faults.extend([PASSING["500"]] * 3)
    assert isinstance(client(tries=4, backoff_s=1).look(fake.name(TAG)), Image)
    assert [wait for wait in slept if wait] == [2, 4]
    slept.clear()
    fake.faults.extend([PASSING["broken off"]] * 3)
    assert isinstance(client(tries=4, backoff_s=1).look(fake.name(TAG)), Image)
    assert [wait for wait in slept if wait] == [1, 2, 4]


@pytest.mark.parametrize("where", ["manifests", "blobs", "token"])
@pytest.mark.parametrize("body", [HTML, b"", b"[]", b"\xff", b'{"a":', b"[" * 100_000])
def test_an_answer_that_is_not_json_is_unreachable(fake: FakeRegistry, where: str, body: bytes) -> None:
    fake.wants = "Bearer"
    fake.put_image(TAG)
    fake.faulty = where
    fake.faults.append(Fault(body=body))
    with pytest.raises(UnreachableError, match=r"and not in JSON|in place of sha256"):
        client().look(fake.name(TAG))


def test_an_answer_without_end_is_not_read(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SIZE_MAX", 2000)
    fake.put_image(TAG, configuration=AMD | {"history": "x" * 2000})
    with pytest.raises(RegistryError, match=f"^{fake.host} answers with more than 2000 bytes"):
        client().look(fake.name(TAG))
    fake.put(OCI_INDEX, {"manifests": [], "x": "x" * 2000}, "index")
    with pytest.raises(RegistryError, match="more than 2000 bytes"):
        client().look(fake.name("index"))


# --- digests --------------------------------------------------------------------------------------------------------


def test_a_missing_digest_is_computed(fake: FakeRegistry) -> None:
    digest = fake.put_image(TAG)
    fake.digest_header = lambda _: None
    assert seen_image(client().look(fake.name(TAG))).index == digest
    fake.digest_header = lambda _: "sha512:" + "b" * 128
    assert seen_image(client().look(fake.name(TAG))).index == digest


def test_a_wrong_digest_is_noticed(fake: FakeRegistry) -> None:
    digest = fake.put_image(TAG)
    fake.digest_header = lambda _: SOME_DIGEST
    with pytest.raises(UnreachableError, match=f"gives {digest} in place of {SOME_DIGEST}"):
        client().look(fake.name(TAG))


def test_what_is_asked_by_digest_must_have_it(fake: FakeRegistry) -> None:
    amd = fake.put_image()
    fake.put_index(TAG, [{"digest": amd, "platform": AMD}])
    right = fake.manifests["nvidia/jax", amd]
    fake.manifests["nvidia/jax", amd] = (right[0], right[1] + b" ")
    with pytest.raises(UnreachableError, match=f"in place of {amd}"):
        client().look(fake.name(TAG))
    fake.manifests["nvidia/jax", amd] = right
    (digest,) = fake.blobs
    fake.blobs[digest] = b'{"os": "linux", "architecture": "amd64", "config": {"Env": ["EVIL=1"]}}'
    with pytest.raises(UnreachableError, match=f"in place of {digest}"):
        client().look(fake.name(TAG))


# --- credentials ----------------------------------------------------------------------------------------------------

USER = ("ann", "pass:wörd")
MINE = {"username": "ann", "password": "pass:wörd"}


def test_nobody_in_particular_gets_a_token(fake: FakeRegistry) -> None:
    fake.wants = "Bearer"
    fake.put_image(TAG)
    asking = client()
    assert isinstance(asking.look(fake.name(TAG)), Image)
    assert isinstance(asking.look(fake.name(TAG)), Image)
    assert fake.tokens_given == 1
    token = next(seen for seen in fake.seen if seen.path.startswith("/token"))
    assert token.authorization is None
    assert "scope=repository%3Anvidia%2Fjax%3Apull" in token.path
    # what was allowed for one repository is not shown to another
    fake.put_image("other")
    fake.manifests["nvidia/t5x", TAG] = fake.manifests["nvidia/jax", TAG]
    assert isinstance(asking.look(fake.name(TAG, "nvidia/t5x")), Image)
    assert fake.tokens_given == 2


@pytest.mark.parametrize("key", ["token", "access_token"])
def test_a_user_gets_a_token_for_the_credentials(fake: FakeRegistry, key: str) -> None:
    fake.put_image(TAG)
    with FakeRegistry(user=USER, token_key=key) as giver:
        fake.wants, fake.realm, fake.tokens = "Bearer", f"http://{giver.host}/token", giver.tokens
        assert isinstance(client(**MINE).look(fake.name(TAG)), Image)
        assert [seen.authorization for seen in giver.seen] == [basic(*USER)]
    # the registry itself sees the token only
    assert {seen.authorization for seen in fake.seen} == {None, "Bearer token-1"}


def test_a_token_that_has_ended_is_got_again_once(fake: FakeRegistry) -> None:
    fake.wants = "Bearer"
    fake.put_image(TAG)
    asking = client()
    asking.look(fake.name(TAG))
    fake.tokens.clear()
    assert isinstance(asking.look(fake.name(TAG)), Image)
    assert fake.tokens_given == 2

    class Never(set[str]):
        def add(self, element: str, /) -> None:
            del element

    fake.tokens = Never()
    fake.seen.clear()
    with pytest.raises(
        RegistryError, match="refuses nvidia/jax without credentials: set username and password"
    ):
        asking.look(fake.name(TAG))
    assert len(fake.seen) == 3


def test_a_registry_may_want_the_credentials_themselves(fake: FakeRegistry) -> None:
    fake.wants, fake.user = "Basic", USER
    fake.put_image(TAG)
    assert isinstance(client(**MINE).look(fake.name(TAG)), Image)
    for changes, who in (({}, "without credentials"), (MINE | {"password": "no"}, "to the user ann")):
        with pytest.raises(
            RegistryError, match=f"^{fake.host} refuses nvidia/jax {who}: set username and password"
        ):
            client(**changes).look(fake.name(TAG))


def test_a_wrong_user_is_told_so(fake: FakeRegistry) -> None:
    fake.wants, fake.user = "Bearer", USER
    for changes, who in (({}, "without credentials"), (MINE | {"password": "no"}, "to the user ann")):
        with pytest.raises(RegistryError, match=f"refuses nvidia/jax {who}: set username and password"):
            client(**changes).look(fake.name(TAG))
    assert "wörd" not in repr(client(**MINE))
    fake.faults.append(error(403, "DENIED"))
    with pytest.raises(RegistryError, match="refuses nvidia/jax to the user ann"):
        client(**MINE).look(fake.name(TAG))


def test_credentials_are_for_their_own_host(fake: FakeRegistry) -> None:
    fake.wants, fake.user = "Basic", USER
    with pytest.raises(RegistryError, match="without credentials"):
        client(**MINE, host="ghcr.io").look(fake.name(TAG))
    assert {seen.authorization for seen in fake.seen} == {None}
    assert isinstance(client(**MINE, host=fake.host).look(fake.name(TAG)), Absent)


@pytest.mark.parametrize(
    "realm", ["http://example.com/token", "/token", "ftp://127.0.0.1/x", "https://[x/", "https://h:0x1/"]
)
def test_a_token_is_asked_for_where_nobody_listens(fake: FakeRegistry, realm: str) -> None:
    fake.wants, fake.realm = "Bearer", realm
    with pytest.raises(
        RegistryError, match=f"wants a token from '{re.escape(realm)}'; accepted is a service by https"
    ):
        client(**MINE).look(fake.name(TAG))


@pytest.mark.parametrize(
    ("challenge", "works"),
    [
        ('Basic realm="x", BEARER realm="{}", service="fake"', True),
        ("bearer Realm={},service=fake", False),
        ("Negotiate", False),
        ("", False),
    ],
)
def test_challenges(fake: FakeRegistry, challenge: str, works: bool) -> None:
    fake.wants = "Bearer"
    fake.put_image(TAG)
    fake.challenge = challenge.format(f"http://{fake.host}/token") or "-"
    if works:
        assert isinstance(client(**MINE).look(fake.name(TAG)), Image)
    else:
        with pytest.raises(RegistryError):
            client(**MINE).look(fake.name(TAG))


@pytest.mark.parametrize("body", [b"{}", b'{"token": 1}', b'{"token": "a\\nb"}', b'{"token": "\\u20ac"}'])
def test_no_token(fake: FakeRegistry, body: bytes) -> None:
    fake.wants, fake.faulty = "Bearer", "token"
    fake.faults.append(Fault(body=body))
    with pytest.raises(UnreachableError, match="gives no token for"):
        client().look(fake.name(TAG))


def test_a_netrc_is_not_asked(fake: FakeRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login eve password secret\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    fake.wants = "Bearer"
    fake.put_image(TAG)
    with FakeRegistry(blobs=fake.blobs) as store:
        fake.blob_host = store.host
        assert isinstance(client().look(fake.name(TAG)), Image)
        shown = {seen.authorization for seen in (*fake.seen, *store.seen)}
    assert shown == {None, "Bearer token-1"}


def test_a_loopback_registry_needs_no_proxy(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    fake.put_image(TAG)
    assert isinstance(client().look(fake.name(TAG)), Image)


# --- redirects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wants", ["Bearer", "Basic"])
def test_no_credentials_follow_a_redirect(fake: FakeRegistry, wants: str) -> None:
    fake.wants, fake.user = wants, USER
    fake.put_image(TAG)
    with FakeRegistry(blobs=fake.blobs) as store:
        fake.blob_host = store.host
        assert isinstance(client(**MINE).look(fake.name(TAG)), Image)
        assert [seen.authorization for seen in store.seen] == [None]
        store.blobs = dict.fromkeys(store.blobs, b"{}")
        with pytest.raises(UnreachableError, match="in place of sha256"):
            client(**MINE).look(fake.name(TAG))
        store.blobs = {}
        with pytest.raises(UnreachableError, match=f"^{store.host} .by {fake.host}. answers 404"):
            client(**MINE).look(fake.name(TAG))
        store.wants, store.user = "Basic", USER
        with pytest.raises(UnreachableError, match=f"^{store.host} .by {fake.host}. answers 401"):
            client(**MINE).look(fake.name(TAG))
        assert {seen.authorization for seen in store.seen} == {None}


@pytest.mark.parametrize("target", ["{host}", "127.0.0.1:1", "[x"])
def test_a_redirect_to_nowhere_is_unreachable(fake: FakeRegistry, target: str) -> None:
    fake.put_image(TAG)
    fake.blob_host = target.format(host=fake.host)
    with pytest.raises(UnreachableError, match=f"^{fake.host} (does not answer|leads to no address)"):
        client().look(fake.name(TAG))
    assert len(fake.seen) < 9


# --- tags -----------------------------------------------------------------------------------------------------------

TAGS = [f"jax-2024-09-{day:02}" for day in range(1, 8)]


@pytest.mark.parametrize(
    "link",
    ["{}".format, lambda path: f"http://example.com{path}", lambda path: "list?" + path.partition("?")[2]],
    ids=["relative", "another host", "beside"],
)
@pytest.mark.parametrize("page", [1, 3, 7, None])
def test_tags_come_page_by_page(fake: FakeRegistry, link: Callable[[str], str], page: int | None) -> None:
    fake.wants = "Bearer"
    fake.tag_lists["nvidia/jax"] = TAGS
    fake.page, fake.link = page, link
    assert list(client().tags(f"{fake.host}/nvidia/jax")) == TAGS
    asked = [path for path in fake.paths() if "tags/list" in path]
    assert "n=1000" in asked[0]
    assert len(asked) == 1 + -(-len(TAGS) // (page or 7))  # the first was told to get a token
    assert list(client().tags(f"{fake.host}#nvidia/jax")) == TAGS


def test_no_tags(fake: FakeRegistry) -> None:
    fake.tag_lists["nvidia/jax"] = None
    assert list(client().tags(f"{fake.host}/nvidia/jax")) == []
    with pytest.raises(RegistryError, match="has no repository nvidia/t5x"):
        list(client().tags(f"{fake.host}/nvidia/t5x"))
    for name in (f"{fake.host}/nvidia/jax:x", "jax", f"http://{fake.host}/jax"):
        with pytest.raises(RegistryError, match=r"; accepted is HOST/NAME, such as ghcr\.io/nvidia/jax$"):
            list(client().tags(name))


@pytest.mark.parametrize("last", ["the same", "{}"])
def test_paging_in_circles_comes_to_an_end(
    fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    monkeypatch.setattr(registry, "PAGES_MAX", 20)

    def page(tags: list[str], count: int) -> Fault:
        link = f'</v2/nvidia/jax/tags/list?last={last.format(count)}>; rel="next"'
        return Fault(headers={"Link": link}, body=json.dumps({"tags": tags}).encode())

    fake.faults.extend(page(TAGS, count) for count in range(99))
    assert list(client().tags(f"{fake.host}/nvidia/jax")) == TAGS
    assert len(fake.seen) == 2
    fake.faults.clear()
    fake.faults.extend(page([], count) for count in range(99))
    if last == "the same":
        assert list(client().tags(f"{fake.host}/nvidia/jax")) == []
    else:
        with pytest.raises(UnreachableError, match="don't come to an end"):
            list(client().tags(f"{fake.host}/nvidia/jax"))


# --- later ----------------------------------------------------------------------------------------------------------


def test_whether_an_image_is_still_there(fake: FakeRegistry) -> None:
    fake.wants = "Bearer"
    amd = fake.put_image()
    fake.put_index(TAG, [{"digest": amd, "platform": AMD}])
    asking = client()
    image = seen_image(asking.look(fake.name(TAG)))
    fake.seen.clear()
    assert asking.still_there(image)
    assert [(seen.method, seen.path) for seen in fake.seen] == [("HEAD", f"/v2/nvidia/jax/manifests/{amd}")]
    # the tag is gone, the image is not
    del fake.manifests["nvidia/jax", TAG]
    assert asking.still_there(image)
    del fake.manifests["nvidia/jax", amd]
    assert not asking.still_there(image)
    fake.faults.extend([Fault(status=404), error(404, "NAME_UNKNOWN")])
    assert not asking.still_there(image)
    fake.faults.extend([Fault(status=404), Fault(status=404, body=HTML)])
    with pytest.raises(UnreachableError, match="and not in JSON"):
        asking.still_there(image)
    fake.faults.extend([Fault(status=404), error(404, "TEAPOT")])
    with pytest.raises(RegistryError, match="TEAPOT"):
        asking.still_there(image)
    fake.faults.extend([Fault(status=500)] * 3)
    with pytest.raises(UnreachableError, match="answers 500"):
        asking.still_there(image)
    with pytest.raises(UnreachableError, match="Connection refused"):
        asking.still_there(replace(image, reference="127.0.0.1:1/nvidia/jax:x"))


# --- nights ---------------------------------------------------------------------------------------------------------


def commits(folder: Path) -> CommitNights:
    mirrors = {
        name: Mirror(repository=name, url=str(folder / name), folder=folder / f"{name}.git")
        for name in ("jax", "xla")
    }
    return CommitNights(name="containers", mirrors=mirrors, fixed={})


@pytest.fixture
def nights(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RegistryNights:
    monkeypatch.setattr(nightlies, "_today", lambda: dt.date(2024, 9, 17))
    return RegistryNights(
        name="containers",
        registry=client(),
        commits=commits(tmp_path),
        image=fake.host + "/nvidia/{container}:{flavor}-{date}",
        earlier_images=(
            EarlierImage(through=dt.date(2023, 1, 1), image=fake.host + "/old/{container}:{date}"),
            EarlierImage(through=dt.date(2024, 2, 9), image=fake.host + "/nvidia/{container}:nightly-{date}"),
        ),
    )


def test_a_night_is_an_image_or_a_gap(fake: FakeRegistry, nights: RegistryNights) -> None:
    digest = fake.put_image(TAG)
    night = nights.night("2024-09-16")
    assert night is not None
    assert night.image is not None
    assert night.image.digest == digest
    assert (night.source.kind, night.source.name) == (SourceKind.REGISTRY, "containers")
    assert (night.label, night.at) == ("2024-09-16", dt.datetime(2024, 9, 16, tzinfo=dt.UTC))
    assert (night.gap_reason, night.pair) == (None, None)

    today = nights.night("2024-09-17")
    assert today is not None
    assert today.gap_reason == f"not published: {fake.host}/nvidia/jax:jax-2024-09-17 is not in the registry"
    gap = nights.night("2024-02-09")
    assert gap is not None
    assert gap.image is None
    assert (
        gap.gap_reason == f"not published: {fake.host}/nvidia/jax:nightly-2024-02-09 is not in the registry"
    )
    nights.platform = "linux/arm64"
    other = nights.night("2024-09-16")
    assert other is not None
    assert "was built for linux/amd64 only" in (other.gap_reason or "")


@pytest.mark.parametrize(
    "label", ["2024-09-18", "20240916", "2024-W38-1", "0.4.31", "", "2024-02-30", "2024-09-16 "]
)
def test_no_night(fake: FakeRegistry, nights: RegistryNights, label: str) -> None:
    assert nights.night(label) is None
    assert not fake.seen


def test_a_registry_that_fails_is_no_gap(fake: FakeRegistry, nights: RegistryNights) -> None:
    fake.faults.append(error(404, "NAME_UNKNOWN"))
    with pytest.raises(RegistryError):
        nights.night("2024-09-16")
    fake.faults.extend([PASSING["500"]] * 3)
    with pytest.raises(UnreachableError):
        nights.night("2024-09-16")


def test_the_labels_are_dates(nights: RegistryNights) -> None:
    assert nights.labels() == ("2024-09-17",)
    assert nights.label_on(dt.date(2024, 9, 16)) == "2024-09-16"


def test_the_name_follows_the_date(fake: FakeRegistry, nights: RegistryNights) -> None:
    nights.container, nights.flavor = "t5x", "upstream"
    assert [
        nights.reference(dt.date(*date)).removeprefix(fake.host)
        for date in ((2023, 1, 1), (2023, 1, 2), (2024, 2, 9), (2024, 2, 10))
    ] == [
        "/old/t5x:2023-01-01",
        "/nvidia/t5x:nightly-2023-01-02",
        "/nvidia/t5x:nightly-2024-02-09",
        "/nvidia/t5x:upstream-2024-02-10",
    ]


def test_nvidias_names_are_built_in(tmp_path: Path) -> None:
    builtin = RegistryNights(name="containers", registry=client(), commits=commits(tmp_path))
    assert builtin.reference(dt.date(2024, 2, 9)) == "ghcr.io/nvidia/jax:nightly-2024-02-09"
    assert builtin.reference(dt.date(2024, 2, 10)) == "ghcr.io/nvidia/jax:jax-2024-02-10"
    assert builtin.platform == "linux/amd64"
    for template in (IMAGE, EARLIER_IMAGE):
        assert template_fault(template) is None


def test_its_commits_are_those_of_the_repositories(nights: RegistryNights, tmp_path: Path) -> None:
    hashes = {}
    for name in ("jax", "xla"):
        (tmp_path / name).mkdir()
        hashes[name] = bed_planted.lay(tmp_path / name, name, bed_planted.BAD)
        nights.commits.mirrors[name].fetch()
    first, last = (
        nights.pair(hashes["jax"][jax], hashes["xla"][xla][:12])
        for jax, xla in (("words of the night", "a note of the night"), ("half of jax", "half of xla"))
    )
    assert isinstance(first, CommitPair)
    assert isinstance(last, CommitPair)
    later = replace(
        first.jax, committed_at=last.at + dt.timedelta(days=9)
    )  # of an image it need not be known
    path = nights.path(replace(first, jax=later), last, Pairing.CLOCK)
    assert not isinstance(path, str)
    assert (path[0].pair, path[-1].pair) == (first, last)
    assert nights.heads(dt.date(2024, 3, 1)) == nights.pair(
        hashes["jax"]["last of the first day"], hashes["xla"]["last of the first day"]
    )
    info = nights.info("xla", hashes["xla"]["half of xla"])
    assert info is not None
    assert info.subject == "half of xla"
    assert nights.path(first, replace(last, xla=replace(last.xla, ref="beef")), Pairing.CLOCK) == (
        f"xla has no commit 'beef'; accepted is a hash, tag or branch of {tmp_path / 'xla'}"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("h.io/{container}:{flavor}", "has no {date}; accepted is a name with {date} in it"),
        ("h.io/jax:{{date}}", "has no {date}; "),
        ("h.io/jax:{tag}-{date}", "has the placeholder {tag}; "),
        ("h.io/jax:{}-{date}", "has the placeholder {}; "),
        ("h.io/jax:{date:%Y}", "has the placeholder {date:%Y}; "),
        ("h.io/jax:{date!r}", "has the placeholder {date!r}; "),
        ("h.io/jax:{date.year}", "has the placeholder {date.year}; "),
        ("h.io/jax:{date", "has a brace without its other half; "),
        ("h.io/jax:date}", "has a brace without its other half; "),
        ("jax:{date}", "does not name its registry; accepted is HOST/NAME:TAG"),
    ],
)
def test_a_template_is_checked(text: str, reason: str) -> None:
    assert reason in (template_fault(text) or "")
