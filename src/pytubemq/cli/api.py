"""The JSON API's client: the only way in which the command line administers a cluster.

The invariant: one request has one response or one clear error; never a redirect to another host, never a proxy.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from pytubemq.cli.api_address import ApiAddress
from pytubemq.errors import (
    ConfigError,
    ExitCode,
    RemoteError,
    RequestTimeoutError,
    TubeError,
    UnreachableError,
    refused,
)
from pytubemq.model.ids import Address
from pytubemq.model.tls_options import TlsOptions
from pytubemq.net.sockets import deadline
from pytubemq.security.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVER_WAIT_S = 20.0
"""The time that a request may take beyond the usual while the Master waits for its Brokers."""
TOKEN_VARIABLE = "PYTUBEMQ_TOKEN"
"""The environment variable of the token, which keeps it out of process listings and files."""
CA_VARIABLE = "PYTUBEMQ_CA"
"""The environment variable of the file of CAs for HTTPS, where the URL names none."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_DONE = frozenset({200, 201, 202})
_CODE = re.compile("[0-9]{1,9}")
_PORT = "port 8080 unless it was set otherwise"


class Api:
    """`/api/v1` of one Master."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        address = ApiAddress.parse(url)
        self.url = address.url
        self._host = address.host
        self._port = address.port
        self._ca = _ca(address) if address.is_tls else None
        self._token = _token(address)
        self._timeout_s = timeout_s

    def rows(self, *path: str, query: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """GET `/api/v1/<path>`, a list of objects; the parts are quoted."""
        found = self._request("GET", path, None, query=query)
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            raise _not_the_api(self.url, found)
        return found

    def get(self, *path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """GET one object."""
        return self._object("GET", path, None, query=query)

    def post(self, *path: str, body: dict[str, Any], query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """POST one JSON object."""
        return self._object("POST", path, body, query=query)

    def patch(self, *path: str, body: dict[str, Any]) -> dict[str, Any]:
        """PATCH one object with a JSON object."""
        return self._object("PATCH", path, body)

    def delete(self, *path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """DELETE one object."""
        return self._object("DELETE", path, None, query=query)

    def health(self) -> dict[str, Any]:
        """GET `/api/v1/health`, whose response is the same object whether healthy (200) or not (503)."""
        return self._object("GET", ("health",), None, accept=frozenset({200, 503}))

    def _connection(self) -> http.client.HTTPConnection:
        if self._ca is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout_s)
        from pytubemq.net.tls.reload import client_tls

        context = client_tls(TlsOptions(self._ca))
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout_s, context=context)

    def _object(
        self,
        method: str,
        path: tuple[str, ...],
        body: dict[str, Any] | None,
        *,
        accept: frozenset[int] = _DONE,
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        found = self._request(method, path, body, accept=accept, query=query)
        if not isinstance(found, dict) or _is_original(found):
            raise _not_the_api(self.url, found)
        return found

    def _request(
        self,
        method: str,
        path: tuple[str, ...],
        body: dict[str, Any] | None,
        *,
        accept: frozenset[int] = _DONE,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        target = "/api/v1/" + "/".join(quote(part, safe="") for part in path)
        if query:
            target = f"{target}?{urlencode(query)}"
        connection = self._connection()
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._token:
            headers["Authorization"] = f"Bearer {self._token.reveal()}"
        over = threading.Event()
        try:
            connection.connect()
            with deadline(connection.sock, self._timeout_s, over):
                connection.request(method, target, None if body is None else json.dumps(body), headers)
                answer = connection.getresponse()
                data = answer.read(MAX_ANSWER_BYTES)
        except TimeoutError as error:
            raise self._no_response() from error
        except http.client.HTTPException as error:
            if over.is_set():
                raise self._no_response() from error
            raise UnreachableError(
                f"the server at {self.url} does not speak HTTP",
                hint=_not_http_hint(self.url, is_tls=self._ca is not None),
            ) from error
        except OSError as error:
            if over.is_set():
                raise self._no_response() from error
            if self._ca is not None:
                from pytubemq.net.tls.failures import is_tls_failure, no_connection

                if is_tls_failure(error):
                    raise no_connection(Address(self._host, self._port), error) from error
            raise UnreachableError(
                f"the JSON API at {self.url} cannot be reached: {_reason(error)}",
                hint="start a cluster with  pytubemq dev   or name another one with --http or -P",
            ) from error
        finally:
            connection.close()
        if over.is_set():
            raise self._no_response()
        value = _parse(self.url, answer.status, data)
        if answer.status in accept:
            return value
        raise _failure(answer.status, value)

    def _no_response(self) -> RequestTimeoutError:
        return RequestTimeoutError(
            f"no response from {self.url} within {self._timeout_s:g} s",
            hint="it is overloaded, stopped or gone: check its process and its log, or raise --timeout",
        )


def _ca(address: ApiAddress) -> str:
    """Return the file of the CAs that the server's certificate must come from.

    Raises:
        ConfigError: none is named.
    """
    named = address.ca or os.environ.get(CA_VARIABLE, "").strip()
    if not named:
        raise ConfigError(
            f"{address.url} is over TLS, and no CA is named for its certificate",
            hint=f"write https://host:port?ca=FILE, or set {CA_VARIABLE}",
        )
    return named


def _token(address: ApiAddress) -> Secret:
    """Return the token for changes: that of the environment, else that in the file which the URL names; or none.

    Raises:
        ConfigError: the file cannot be read, is empty, or is open to other users of this machine.
    """
    if token := os.environ.get(TOKEN_VARIABLE, "").strip():
        return Secret(token)
    if address.token_file is None:
        return Secret("")
    from pytubemq.client.client_credentials import read_secret_file

    return read_secret_file(address.token_file, holds="token", printed_by="pytubemq user token create")


def with_scheme(url: str) -> str:
    """Return the URL, with http:// if it has no scheme."""
    return url if "://" in url else f"http://{url}"


def _not_http_hint(url: str, *, is_tls: bool) -> str:
    hint = f"give the address of the JSON API ({_PORT}), not a Master's"
    if is_tls:
        return hint
    return f"{hint}; if it is over TLS, write https://{url.removeprefix('http://')}?ca=FILE"


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


def _parse(url: str, status: int, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RemoteError(
            f"the server at {url} is not the JSON API (HTTP {status})",
            hint="check the address given with --http or -P",
        ) from error


def _is_original(value: Any) -> bool:
    """True if it is a response in the form of the original's pages, which a Broker gives on every path."""
    return isinstance(value, dict) and {"result", "errCode"} <= value.keys()


def _not_the_api(url: str, value: Any) -> RemoteError:
    if _is_original(value):
        return RemoteError(
            f"{url} is not the JSON API (it is probably a Broker's page)",
            hint=f"give the address of the JSON API, which is the Master's: {_PORT}",
        )
    return RemoteError(f"the server at {url} is not the JSON API", hint="check the address given with --http or -P")


def _failure(status: int, value: Any) -> TubeError:
    """Return the server's error object as an error of ours; its exit code is 5 where the server says so."""
    fields = value if isinstance(value, dict) else {}
    inner = fields.get("error")
    if isinstance(inner, dict):
        fields = inner
    text = str(fields.get("message") or inner or f"HTTP {status}")
    hint = fields.get("try") or fields.get("hint")
    code = str(fields.get("code"))
    number = int(code) if _CODE.fullmatch(code) else status
    hint = None if hint is None else str(hint)
    if fields.get("exit") == ExitCode.UNREACHABLE:
        return UnreachableError(text, hint=hint, code=number)
    return refused(number, text, hint=hint)
