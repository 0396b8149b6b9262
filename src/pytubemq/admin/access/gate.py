"""The check before each call over HTTP: who calls, and whether that is permitted.

The invariants: where authentication is enforced, nothing that a row asks for is served to a caller without it; where it
is permissive, what would be refused is logged, and what the server's own token guards it still guards; where it is off,
that token is all there is.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from pytubemq.admin.access.needs import KIND_OF, WITHOUT_NAMES, HttpNeed, Names, Row, Subject
from pytubemq.admin.access.origin import is_cross_site, is_json, is_same_origin, session_token
from pytubemq.admin.problems import ApiError
from pytubemq.errors import ExitCode
from pytubemq.master.access.http.http_access import OPERATOR_IDENTITY, HttpAccess, HttpIdentity, Proof
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.security.oidc.oidc_tokens import is_signed_token
from pytubemq.security.permissions import CLUSTER_NAME, Operation, ResourceKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

_HOW: Final = (
    "sign in at /api/v1/session, or send Authorization: Bearer TOKEN; `pytubemq user token create USER` makes one, and "
    "the command line takes it from the variable PYTUBEMQ_TOKEN"
)
_INVALID: Final = 'Bearer error="invalid_token"'
_WRONG_TOKEN: Final = "the token is wrong, has expired, or was revoked"


class ServersToken(Protocol):
    """The rule by the server's own token."""

    @property
    def token(self) -> str:
        """The token; blank where there is none."""
        ...

    def check(
        self, *, modify: bool, headers: Mapping[str, str], query: Mapping[str, str], form: Mapping[str, str]
    ) -> None:
        """Raise an error if a call may not be made."""
        ...

    def given(self, headers: Mapping[str, str], query: Mapping[str, str], form: Mapping[str, str]) -> list[str]:
        """Return the tokens of a request. Raises an error if one is where none may be."""
        ...


class Callers(Protocol):
    """The callers that a server can identify."""

    @property
    def mode(self) -> AuthenticationMode:
        """The mode of authentication."""
        ...

    def by_token(self, text: str) -> HttpIdentity | None:
        """Return whose bearer token this is; None if it is nobody's."""
        ...

    async def by_oidc_token(self, text: str, host: str) -> HttpIdentity | None:
        """Return whose access token of an OIDC issuer this is; None if it is refused. `host` is the caller's."""
        ...

    def by_session(self, token: str) -> HttpIdentity | None:
        """Return whose session this is; None if it has ended."""
        ...

    def warn(self, text: str) -> None:
        """Log what was, or would be, refused."""
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    """A request with who makes it; `identity` is None if nobody was identified."""

    request: Request
    identity: HttpIdentity | None
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """The address of the caller."""
        return "?" if self.request.client is None else self.request.client.host

    @property
    def user(self) -> str:
        """The name of the caller; blank if nobody was identified."""
        return "" if self.identity is None else self.identity.user


class Gate:
    """The check of one server."""

    def __init__(
        self, own: ServersToken | None, http: HttpAccess | None = None, *, callers: Callers | None = None
    ) -> None:
        """Without `own` no call needs a token while authentication is off; without `http` and `callers` it is off.

        `http` are the callers of a Master.
        """
        self._own = own
        self.http = http
        self._callers: Callers | None = http if callers is None else callers

    @property
    def mode(self) -> AuthenticationMode:
        """The mode of authentication."""
        return AuthenticationMode.OFF if self._callers is None else self._callers.mode

    async def enter(
        self,
        request: Request,
        *,
        guarded: bool,
        changes: bool,
        query: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
    ) -> Caller:
        """Return who makes a request; `changes` is true if it may change something.

        Raises:
            ApiError: a token, or the session of a cookie, is invalid; or a page of another site sends the request.
        """
        query, form = query or {}, form or {}
        if self._callers is None or self._callers.mode is AuthenticationMode.OFF:
            self._check_own(request, guarded=guarded, query=query, form=form)
            return Caller(request, None, query, form)
        if guarded and is_cross_site(request.headers):
            raise _refused(HTTPStatus.FORBIDDEN, "a page of another site asked for this", "call from this server")
        given = [] if self._own is None else self._own.given(request.headers, query, form)
        host = Caller(request, None).host
        if given:
            identity = await self._by_tokens(given, host)
        elif token := session_token(request):
            identity = self._callers.by_session(token)
            if identity is not None and changes:
                _check_own_page(request)
        else:
            identity = None
        if given and identity is None and self._callers.mode is AuthenticationMode.ENFORCED:
            self._callers.warn(f"{request.method} {request.url.path} from {host} refused: {_WRONG_TOKEN}")
            raise unauthorized(_WRONG_TOKEN, challenge=_INVALID)
        return Caller(request, identity, query, form)

    def authorize(self, caller: Caller, row: Row, names: Names, *, what: str) -> None:
        """Refuse a call that is not permitted, or log that it would be; `what` is the call, for the log.

        Raises:
            ApiError: nobody was identified (401), or the caller lacks a permission (403).
        """
        if self._callers is None or self._callers.mode is AuthenticationMode.OFF:
            return
        problem = lacking(caller.identity, row, names)
        if problem is None:
            return
        enforced = self._callers.mode is AuthenticationMode.ENFORCED
        verdict = "refused" if enforced else "would be refused"
        self._callers.warn(f"{what} by {caller.user or 'nobody'} from {caller.host} {verdict}: {problem}")
        if not enforced and not row.guarded:
            return
        if not enforced:
            self._check_own(caller.request, guarded=row.guarded, query=caller.query, form=caller.form)
        elif caller.identity is None:
            raise unauthorized(problem)
        else:
            raise _refused(HTTPStatus.FORBIDDEN, problem, _grant_hint(caller.identity, row, names))

    def sees(self, caller: Caller, kind: ResourceKind, name: str) -> bool:
        """True if a resource may be listed to a caller."""
        return self.may(caller, Operation.DESCRIBE, kind, name)

    def may(self, caller: Caller, operation: Operation, kind: ResourceKind, name: str) -> bool:
        """True if a caller that may make a call may do this, too; everything where access is not enforced."""
        if self.mode is not AuthenticationMode.ENFORCED or caller.identity is None:
            return True
        return caller.identity.allows(operation, kind, name)

    def _check_own(self, request: Request, *, guarded: bool, query: Mapping[str, str], form: Mapping[str, str]) -> None:
        if self._own is not None:
            self._own.check(modify=guarded, headers=request.headers, query=query, form=form)

    async def _by_tokens(self, given: list[str], host: str) -> HttpIdentity | None:
        """Return whose tokens these are; None unless all are of the same user."""
        found: HttpIdentity | None = None
        for text in dict.fromkeys(given):
            identity = await self._by_token(text, host)
            if identity is None or (found is not None and found.user != identity.user):
                return None
            found = identity
        return found

    async def _by_token(self, text: str, host: str) -> HttpIdentity | None:
        own = "" if self._own is None else self._own.token
        if own and hmac.compare_digest(text.encode(), own.encode()):
            return OPERATOR_IDENTITY
        if self._callers is None:
            return None
        return await self._callers.by_oidc_token(text, host) if is_signed_token(text) else self._callers.by_token(text)


def lacking(identity: HttpIdentity | None, row: Row, names: Names) -> str | None:
    """Return what a caller lacks for a call; None if the call is permitted."""
    if row.needs == (HttpNeed(Subject.ANYONE),):
        return None
    if identity is None:
        return "this server requires authentication"
    for operation, kind, name in permissions_of(row, names):
        if not identity.allows(operation, kind, name):
            where = "the cluster" if kind is ResourceKind.CLUSTER else f"{kind} {name}"
            return f"user {identity.user} lacks the permission {operation} on {where}"
    for need in row.needs:
        if need.subject is Subject.SERVERS_TOKEN and identity.proof is not Proof.HTTP_TOKEN:
            return "this call needs the server's own token"
        if need.subject is Subject.ITS_USER and not (identity.is_admin or set(names.users) <= {identity.user}):
            return f"user {identity.user} lacks the permission {Operation.ADMIN} on the cluster"
    return None


def permissions_of(row: Row, names: Names) -> list[tuple[Operation, ResourceKind, str]]:
    """Return the permissions that a call needs, with the resources that it names."""
    found: list[tuple[Operation, ResourceKind, str]] = []
    named = names.topics or names.groups
    for need in row.needs:
        if need.operation is None:
            continue
        if need.subject is Subject.THE_CLUSTER:
            found.append((need.operation, ResourceKind.CLUSTER, CLUSTER_NAME))
            continue
        kind = KIND_OF[need.subject]
        own = names.topics if kind is ResourceKind.TOPIC else names.groups
        if own:
            found += [(need.operation, kind, name) for name in own]
        elif not named or not _is_covered(row, names):
            found.append((WITHOUT_NAMES[need.operation], ResourceKind.CLUSTER, CLUSTER_NAME))
    return found


def unauthorized(message: str, *, challenge: str = "Bearer") -> ApiError:
    """Return the error for a caller that was not identified."""
    return _refused(HTTPStatus.UNAUTHORIZED, message, _HOW, headers={"WWW-Authenticate": challenge})


def _is_covered(row: Row, names: Names) -> bool:
    """True if what a call names is what one of its needs is about."""
    subjects = {need.subject for need in row.needs}
    return bool((names.topics and Subject.ITS_TOPICS in subjects) or (names.groups and Subject.ITS_GROUPS in subjects))


def _check_own_page(request: Request) -> None:
    if not is_same_origin(request.headers) or not is_json(request.headers):
        raise _refused(
            HTTPStatus.FORBIDDEN,
            "a change with the cookie of a session must come from a page of this server, as JSON",
            "send the headers Content-Type: application/json and Origin, with the address of this server, as in "
            "Origin: https://HOST:PORT; or send a token, and no cookie",
        )


def _grant_hint(identity: HttpIdentity, row: Row, names: Names) -> str:
    for operation, kind, name in permissions_of(row, names):
        if not identity.allows(operation, kind, name):
            pattern = "" if kind is ResourceKind.CLUSTER else f" {name}"
            return f"an administrator grants it:  pytubemq permission grant {identity.user} {operation} {kind}{pattern}"
    return (
        "call with the token in [http] of this server's settings"
        if _needs_own(row)
        else (f"an administrator grants it:  pytubemq permission grant {identity.user} admin cluster")
    )


def _needs_own(row: Row) -> bool:
    return any(need.subject is Subject.SERVERS_TOKEN for need in row.needs)


def _refused(status: HTTPStatus, message: str, hint: str, *, headers: Mapping[str, str] | None = None) -> ApiError:
    return ApiError(status, message, status.phrase, hint, ExitCode.REFUSED, headers=dict(headers or {}))
