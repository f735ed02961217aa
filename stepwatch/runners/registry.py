"""What does a container registry know of an image, without its layers?

The reading half of the OCI distribution API (version 2 of Docker's): the manifest and the configuration of a tag, a
few kB, say what it was built for, by which digests, with which labels and variables. What has a digest is checked
against it. Registries at a loopback address are spoken to by http, all others by https.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import requests
from requests.utils import parse_dict_header, parse_header_links

from stepwatch.core.model import Image
from stepwatch.runners.images import (
    DIGEST,
    PLATFORM,
    Absence,
    Absent,
    Reference,
    described_image,
    is_loopback,
    listed,
    mapping,
    parse_platform,
    parse_reference,
    parse_repository,
    platform_name,
    platforms_of,
)
from stepwatch.runners.protocol import UnreachableError
from stepwatch.runners.web import SystemTrust, innermost

# a registry answers 404 for an index to a client that does not say that it reads one, and so on
MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
SIZE_MAX = 8 * 2**20  # bytes of an answer
PAGES_MAX = 10_000
RETRY_AFTER_MAX_S = 60


class RegistryError(Exception):
    """A registry refuses, or was asked for what it can't have; a person must change something."""


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """A whole answer; `elsewhere` is the host that gave it, where the one that was asked led there."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    elsewhere: str | None


@dataclass(kw_only=True)
class Registry:
    """Registries as one user sees them, or nobody in particular.

    The credentials go to the registry `host` (None: to each one that is asked) and its token service, and nowhere else.
    """

    username: str | None = None
    password: str | None = field(default=None, repr=False)
    host: str | None = None
    tries: int = 4
    backoff_s: float = 1.0
    timeout_s: float = 30.0

    def __post_init__(self) -> None:
        self._authorizations: dict[tuple[str, str], str] = {}
        self._session = _Session()
        self._session.max_redirects = 5
        self._session.headers.update({"User-Agent": "stepwatch", "Accept-Encoding": "identity"})
        adapter = SystemTrust()
        adapter.max_retries = adapter.max_retries.new(
            total=self.tries - 1,
            read=None,
            status_forcelist={HTTPStatus.TOO_MANY_REQUESTS, *range(500, 600)},
            backoff_factor=self.backoff_s,
            retry_after_max=RETRY_AFTER_MAX_S,
            raise_on_status=False,
        )
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, adapter)

    def look(self, reference: str, platform: str = PLATFORM) -> Image | Absent:
        """The image of a reference for a platform (`os/architecture`, or with `/variant`), or why there is none.

        Raises:
            RegistryError: access is refused, there is no such repository, or what is there is no container image.
            UnreachableError: the registry gives no answer that can be used.
        """
        asked, wanted = _accepted(parse_reference(reference)), parse_platform(platform)
        if wanted is None:
            raise RegistryError(f"{platform!r} is no platform; accepted is one such as {PLATFORM}")
        top = self._manifest(asked, asked.digest or asked.tag)
        if top is None:
            return Absent(kind=Absence.MISSING, reason=f"not published: {asked} is not in the registry")
        index, document = top
        if "manifests" not in document:
            configuration = self._configuration(asked, document)
            built = {platform_name(configuration): index}
        elif wanted in (built := platforms_of(document)):
            below = self._manifest(asked, _digest(built[wanted], asked))
            if below is None:
                why = f"{asked} is in the registry, but the image for {wanted} that it names is not"
                return Absent(kind=Absence.MISSING, reason=why)
            configuration = self._configuration(asked, below[1])
        if wanted not in built:
            only = f"for {' and '.join(built)} only" if built else "for no platform that it names"
            why = f"{asked} was built {only}, and {wanted} is asked for"
            return Absent(kind=Absence.OTHER_PLATFORM, reason=why)
        return described_image(configuration, str(asked), index, wanted, built)

    def still_there(self, image: Image) -> bool:
        """Whether the registry still has what was seen, by its digest.

        Raises:
            RegistryError: access is refused.
            UnreachableError: the registry gives no answer that can be used.
        """
        asked = _accepted(parse_reference(image.reference))
        path = f"/v2/{asked.repository}/manifests/{image.digest}"
        # only the answer to GET has a body, which tells the registry's own 404 from any other
        for method in ("HEAD", "GET"):
            answer = self._ask(asked, path, MANIFESTS, method)
            if answer.status == HTTPStatus.OK:
                return True
        if _codes(answer, asked).keys() & {"MANIFEST_UNKNOWN", "NAME_UNKNOWN"}:
            return False
        raise _not_found(answer, asked)

    def tags(self, repository: str) -> Iterator[str]:
        """The tags of a repository (`ghcr.io/nvidia/jax`), each once, in the registry's order.

        Raises:
            RegistryError: access is refused, or there is no such repository.
            UnreachableError: the registry gives no answer that can be used.
        """
        accepted = "accepted is HOST/NAME, such as ghcr.io/nvidia/jax"
        asked = _accepted(parse_repository(repository, accepted))
        if asked.tag or asked.digest:
            raise RegistryError(f"{repository!r} is the name of one image; {accepted}")
        path = f"/v2/{asked.repository}/tags/list?n=1000"
        known: dict[str, None] = {}
        for _ in range(PAGES_MAX):
            answer = self._found(asked, path, "application/json")
            page = [str(tag) for tag in listed(_document(answer, asked).get("tags"))]
            fresh = [tag for tag in dict.fromkeys(page) if tag not in known]
            known.update(dict.fromkeys(fresh))
            yield from fresh
            after = _next(path, answer)
            # one that goes in circles brings nothing new
            if after is None or after == path or (page and not fresh):
                return
            path = after
        raise UnreachableError(f"the tags of {asked} don't come to an end ({PAGES_MAX} pages)")

    def _manifest(self, asked: Reference, name: str | None) -> tuple[str, dict[str, Any]] | None:
        """Digest and content of a manifest, by its tag or digest; None where the registry has none."""
        answer = self._ask(asked, f"/v2/{asked.repository}/manifests/{name}", MANIFESTS)
        if answer.status != HTTPStatus.OK:
            if "MANIFEST_UNKNOWN" in _codes(answer, asked):
                return None
            raise _not_found(answer, asked)
        for expected in (name, answer.headers.get("Docker-Content-Digest")):
            _check(expected, answer, asked)
        document = _document(answer, asked)
        # what could be read as either would be another image to another client
        if ("manifests" in document) == ("config" in document):
            kind = document.get("mediaType") or answer.headers.get("Content-Type")
            raise RegistryError(f"{asked} is no image that can be read: its manifest is {kind}")
        return _sha256(answer), document

    def _configuration(self, asked: Reference, manifest: Mapping[str, Any]) -> dict[str, Any]:
        digest = _digest(mapping(manifest.get("config")).get("digest"), asked)
        answer = self._found(asked, f"/v2/{asked.repository}/blobs/{digest}", "*/*")
        _check(digest, answer, asked)
        document = _document(answer, asked)
        if not document.get("os") or not document.get("architecture"):
            raise RegistryError(f"{asked} is no image: its configuration names no os and architecture")
        return document

    def _found(self, asked: Reference, path: str, accept: str) -> _Answer:
        answer = self._ask(asked, path, accept)
        if answer.status != HTTPStatus.OK:
            raise _not_found(answer, asked)
        return answer

    def _ask(self, asked: Reference, path: str, accept: str, method: str = "GET") -> _Answer:
        """The answer to one question about a repository, found (200) or not found (404); all else is raised."""
        url = f"{asked.origin}{path}"
        key = (asked.host, asked.repository)
        answer = self._exchange(method, url, accept, self._authorizations.get(key))
        if answer.status == HTTPStatus.UNAUTHORIZED and not answer.elsewhere:
            self._authorizations[key] = self._authorize(asked, answer)
            answer = self._exchange(method, url, accept, self._authorizations[key])
        if answer.status == HTTPStatus.OK or (answer.status == HTTPStatus.NOT_FOUND and not answer.elsewhere):
            return answer
        if answer.elsewhere:
            raise UnreachableError(
                f"{answer.elsewhere} (by {asked.host}) answers {answer.status} for {asked}"
            )
        raise self._refusal(asked, answer, asked.host)

    def _authorize(self, asked: Reference, refused: _Answer) -> str:
        """What a registry that answers 401 wants to hear: the credentials, or a token that is given for them."""
        basic = self._basic(asked)
        challenge = refused.headers.get("WWW-Authenticate", "")
        bearer = re.search(r"\bbearer\s+(.*)", challenge, re.IGNORECASE)
        if bearer is None:
            if basic is None or not re.search(r"\bbasic\b", challenge, re.IGNORECASE):
                raise self._refusal(asked, refused, asked.host)
            return basic
        wanted = parse_dict_header(bearer[1])  # type: ignore[no-untyped-call]
        realm = wanted.get("realm") or ""
        if not _keeps_secrets(realm):
            raise RegistryError(f"{asked.host} wants a token from {realm!r}; accepted is a service by https")
        query = {"scope": str(wanted.get("scope") or f"repository:{asked.repository}:pull")}
        if service := wanted.get("service"):
            query["service"] = service
        url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}"
        answer = self._exchange("GET", url, "application/json", basic)
        giver = answer.elsewhere or urlsplit(realm).netloc
        if answer.status != HTTPStatus.OK:
            raise self._refusal(asked, answer, giver)
        given = _document(answer, asked)
        token = given.get("token") or given.get("access_token")
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise UnreachableError(f"{giver} gives no token for {asked}")
        return f"Bearer {token}"

    def _basic(self, asked: Reference) -> str | None:
        if self.username is None or self.password is None or self.host not in {None, asked.host}:
            return None
        return f"Basic {base64.b64encode(f'{self.username}:{self.password}'.encode()).decode()}"

    def _refusal(self, asked: Reference, answer: _Answer, host: str) -> RegistryError | UnreachableError:
        if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            user = f"to the user {self.username}" if self._basic(asked) else "without credentials"
            return RegistryError(
                f"{host} refuses {asked.repository} {user}: set username and password of one who may read it, "
                f"or another name, if {asked.host} has no such repository"
            )
        passes = answer.status in {408, HTTPStatus.TOO_MANY_REQUESTS, *range(500, 600)}
        return (UnreachableError if passes else RegistryError)(f"{host} answers {answer.status} for {asked}")

    def _exchange(self, method: str, url: str, accept: str, authorization: str | None) -> _Answer:
        """One whole answer. What passes is tried again: by the adapter, and here where an answer breaks off."""
        host = urlsplit(url)
        why = ""
        for count in range(self.tries):
            time.sleep(self.backoff_s * 2 ** (count - 1) if count else 0)
            try:
                response = self._session.request(
                    method,
                    url,
                    headers={"Accept": accept} | ({"Authorization": authorization} if authorization else {}),
                    auth=lambda request: request,  # as it is: no auth is where requests asks a .netrc
                    proxies={"no_proxy": host.hostname or ""} if is_loopback(url) else None,
                    stream=True,
                    timeout=self.timeout_s,
                )
            except requests.RequestException as error:
                raise UnreachableError(f"{host.netloc} does not answer: {innermost(error)}") from None
            except ValueError as error:
                raise UnreachableError(f"{host.netloc} leads to no address: {error}") from None
            with response:
                end = urlsplit(response.url)
                try:
                    return _Answer(
                        status=response.status_code,
                        headers=response.headers,
                        body=_body(response),
                        elsewhere=end.netloc if end[:2] != host[:2] else None,
                    )
                except requests.RequestException as error:
                    why = innermost(error)
        raise UnreachableError(f"{host.netloc} breaks off its answers: {why}")


class _Session(requests.Session):
    """Follows redirects without the credentials where they lead to another host, and without those of a .netrc."""

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        if self.should_strip_auth(response.request.url or "", prepared_request.url or ""):  # type: ignore[no-untyped-call]
            prepared_request.headers.pop("Authorization", None)


def _accepted(found: Reference | str) -> Reference:
    if isinstance(found, str):
        raise RegistryError(found)
    return found


def _keeps_secrets(url: str) -> bool:
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0  # reading a port that is none raises
        return named and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url)))
    except ValueError:
        return False


def _body(response: requests.Response) -> bytes:
    body = bytearray()
    for chunk in response.iter_content(2**16):
        body += chunk
        if len(body) > SIZE_MAX:
            raise RegistryError(f"{urlsplit(response.url).netloc} answers with more than {SIZE_MAX} bytes")
    return bytes(body)


def _document(answer: _Answer, asked: Reference) -> dict[str, Any]:
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise UnreachableError(f"{asked.host} answers {answer.status} for {asked}, and not in JSON")
    return document


def _codes(answer: _Answer, asked: Reference) -> dict[str, str]:
    """The codes of the errors in an answer, each with its message."""
    errors = map(mapping, listed(_document(answer, asked).get("errors")))
    return {str(error.get("code")): str(error.get("message", "")) for error in errors}


def _not_found(answer: _Answer, asked: Reference) -> RegistryError:
    codes = _codes(answer, asked)
    if "NAME_UNKNOWN" in codes:
        return RegistryError(f"{asked.host} has no repository {asked.repository}")
    said = ", ".join(f"{code} ({message})" for code, message in codes.items()) or "no reason"
    return RegistryError(f"{asked.host} answers 404 for {asked}: {said}")


def _sha256(answer: _Answer) -> str:
    return f"sha256:{hashlib.sha256(answer.body).hexdigest()}"


def _check(expected: str | None, answer: _Answer, asked: Reference) -> None:
    """That an answer is what a digest stands for; what is no sha256 digest (a tag) promises nothing."""
    if expected and DIGEST.fullmatch(expected) and expected != _sha256(answer):
        raise UnreachableError(f"{asked.host} gives {_sha256(answer)} in place of {expected} ({asked})")


def _digest(text: object, asked: Reference) -> str:
    """A digest that a manifest names; it becomes part of a path, so it must be one."""
    if not isinstance(text, str) or not DIGEST.fullmatch(text):
        raise RegistryError(f"the manifest of {asked} names {text!r}; accepted is a sha256 digest")
    return text


def _next(path: str, answer: _Answer) -> str | None:
    """The path of the page after this one: always at the registry itself, whatever host is written before it."""
    for link in parse_header_links(answer.headers.get("Link", "")):
        if link.get("rel") == "next":
            parts = urlsplit(urljoin(path, link["url"]))
            return f"{parts.path}?{parts.query}"
    return None
