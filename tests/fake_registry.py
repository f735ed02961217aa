"""A container registry of the tests' own: the distribution API's reading half on a loopback port, and its faults."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
KINDS = {OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST}
HTML = b"<html><body>Bad gateway</body></html>"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]

    @property
    def authorization(self) -> str | None:
        return self.headers.get("authorization")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An answer in place of the right one; `cut` promises more than it sends, `close` and `stall` send nothing."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: bool = False
    close: bool = False
    stall: bool = False


def sha256(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def error(status: int, code: str, message: str = "") -> Fault:
    return Fault(status=status, body=json.dumps({"errors": [{"code": code, "message": message}]}).encode())


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@dataclass
class FakeRegistry:
    """`faults` are given for the next requests that match `faulty`; `wants` is what a client must show: None, Bearer, Basic."""

    wants: str | None = None
    user: tuple[str, str] | None = None  # None: anybody gets a token
    realm: str | None = None
    token_key: str = "token"
    challenge: str | None = None
    page: int | None = None  # tags a page, where the client's n is not heeded
    link: Callable[[str], str] = "{}".format
    blob_host: str | None = None
    digest_header: Callable[[str], str | None] = str
    faults: deque[Fault] = field(default_factory=deque)
    faulty: str = ""
    manifests: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    tag_lists: dict[str, list[str] | None] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    tokens_given: int = 0

    def __enter__(self) -> Self:
        self._ended = threading.Event()
        handler = type("Handler", (_Handler,), {"registry": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.005,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def name(self, tag: str, repository: str = "nvidia/jax") -> str:
        return f"{self.host}/{repository}:{tag}"

    def paths(self) -> list[str]:
        return [seen.path for seen in self.seen]

    # --- what is in it ---

    def put(self, kind: str, document: Any, *names: str, repository: str = "nvidia/jax") -> str:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        for name in (*names, sha256(body)):
            self.manifests[repository, name] = (kind, body)
        return sha256(body)

    def put_image(
        self, *tags: str, kind: str = OCI_MANIFEST, configuration: Any = None, **platform: str
    ) -> str:
        """A manifest with its configuration; its layer is promised only, so whoever pulls it fails."""
        described = {"os": "linux", "architecture": "amd64"} | platform
        body = json.dumps(configuration if configuration is not None else described | {"config": {}}).encode()
        self.blobs[sha256(body)] = body
        layer = {
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
            "digest": sha256(b"layer"),
            "size": 5,
        }
        document = {
            "schemaVersion": 2,
            "mediaType": kind,
            "config": {"mediaType": "x", "digest": sha256(body), "size": len(body)},
            "layers": [layer],
        }
        return self.put(kind, document, *tags)

    def put_index(self, tag: str, entries: Sequence[Mapping[str, Any]], kind: str = OCI_INDEX) -> str:
        return self.put(kind, {"schemaVersion": 2, "mediaType": kind, "manifests": list(entries)}, tag)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # in one piece: two would wait 40 ms for each other
    registry: FakeRegistry

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        fake = self.registry
        headers = {key.lower(): value for key, value in self.headers.items()}
        fake.seen.append(Seen(method=self.command, path=self.path, headers=headers))
        if fake.faults and fake.faulty in self.path:
            self.send(fake.faults.popleft())
        elif self.path.startswith("/token"):
            self.send(self.token())
        elif not self.allowed():
            self.send(self.refusal())
        else:
            self.send(self.found())

    def send(self, answer: Fault) -> None:
        if answer.stall:
            self.registry._ended.wait(5)
        if answer.stall or answer.close:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for key, value in answer.headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(answer.body) + (99 if answer.cut else 0)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        if answer.cut:
            self.close_connection = True

    # --- who may ask ---

    def allowed(self) -> bool:
        fake, shown = self.registry, self.headers.get("Authorization")
        if fake.wants == "Bearer":
            return shown in {f"Bearer {token}" for token in fake.tokens}
        return fake.wants is None or (fake.user is not None and shown == basic(*fake.user))

    def refusal(self) -> Fault:
        fake = self.registry
        realm = fake.realm or f"http://{fake.host}/token"
        name = self.path.split("/manifests/")[0].split("/blobs/")[0].split("/tags/")[0].removeprefix("/v2/")
        challenge = fake.challenge or (
            f'Bearer realm="{realm}",service="fake",scope="repository:{name}:pull,push"'
            if fake.wants == "Bearer"
            else 'Basic realm="a registry"'
        )
        return Fault(
            status=401, headers={"WWW-Authenticate": challenge}, body=b'{"errors":[{"code":"UNAUTHORIZED"}]}'
        )

    def token(self) -> Fault:
        fake = self.registry
        if fake.user is not None and self.headers.get("Authorization") != basic(*fake.user):
            return error(401, "UNAUTHORIZED")
        query = parse_qs(urlsplit(self.path).query)
        assert query["service"] == ["fake"], self.path
        assert query["scope"][0].startswith("repository:"), self.path
        fake.tokens_given += 1
        token = f"token-{fake.tokens_given}"
        fake.tokens.add(token)
        return Fault(body=json.dumps({fake.token_key: token}).encode())

    # --- what is asked ---

    def found(self) -> Fault:
        parts = urlsplit(self.path)
        repository, _, rest = parts.path.removeprefix("/v2/").rpartition("/manifests/")
        if repository:
            return self.manifest(repository, rest)
        _, blobs, rest = parts.path.rpartition("/blobs/")
        if blobs:
            return self.blob(rest)
        return self.tags(parts.path.removeprefix("/v2/").removesuffix("/tags/list"), parse_qs(parts.query))

    def manifest(self, repository: str, name: str) -> Fault:
        kind, body = self.registry.manifests.get((repository, name), ("", b""))
        accepted = {each.strip() for each in self.headers.get("Accept", "").split(",")}
        # a registry that is not told that the client reads what it has says that it has nothing
        if not kind or (kind in KINDS and accepted != KINDS):
            return error(404, "MANIFEST_UNKNOWN", "manifest unknown")
        said = self.registry.digest_header(sha256(body))
        return Fault(
            headers={"Content-Type": kind} | ({"Docker-Content-Digest": said} if said else {}), body=body
        )

    def blob(self, digest: str) -> Fault:
        fake = self.registry
        if fake.blob_host is not None:
            return Fault(
                status=307, headers={"Location": f"http://{fake.blob_host}{self.path}"}, body=b"elsewhere"
            )
        if digest not in fake.blobs:
            return error(404, "BLOB_UNKNOWN", "blob unknown to registry")
        return Fault(headers={"Content-Type": "application/octet-stream"}, body=fake.blobs[digest])

    def tags(self, repository: str, query: Mapping[str, list[str]]) -> Fault:
        fake = self.registry
        if repository not in fake.tag_lists:
            return error(404, "NAME_UNKNOWN", "repository name not known to registry")
        every = fake.tag_lists[repository]
        start = (every or []).index(query["last"][0]) + 1 if "last" in query else 0
        page = every[start : start + fake.page] if every and fake.page else every
        headers = {}
        if every and page and fake.page and page[-1] != every[-1]:
            path = f"/v2/{repository}/tags/list?last={page[-1]}&n={fake.page}"
            headers["Link"] = f'<{fake.link(path)}>; rel="next"'
        return Fault(headers=headers, body=json.dumps({"name": repository, "tags": page}).encode())
