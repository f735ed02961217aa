"""How do we speak to services on the web, and what is the reason where one does not answer?"""

from __future__ import annotations

import ssl
from typing import Any

import requests
from requests.adapters import HTTPAdapter


class SystemTrust(HTTPAdapter):
    """Trusts what this machine trusts (and `SSL_CERT_FILE` names), as pip and uv do, beside requests' own list."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """As requests has it, with the machine's own certificates."""
        super().init_poolmanager(*args, **kwargs, ssl_context=ssl.create_default_context())


def innermost(error: requests.RequestException) -> str:
    """The innermost reason: requests wraps it in sentences that name objects."""
    inner: BaseException = error
    while True:
        below = (getattr(inner, "reason", None), *inner.args)
        deeper = next((each for each in below if isinstance(each, BaseException)), None)
        if deeper is None:
            return f"{type(inner).__name__}: {str(inner).rpartition(': ')[2]}"
        inner = deeper
