"""Dispatch of requests to methods, and the responses.

The invariants: a request is read within its bounds before anything looks at it; the checks come in the original's order
(method given, method known, token, parameters); every error is answered in the envelope, and nothing internal gets
out. The log names each change as it was called, its targets, its caller and its result, and no other value of a
parameter.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Generic
from urllib.parse import parse_qsl

from pytubemq.admin.access.origin import is_cross_site
from pytubemq.admin.problems import ApiError
from pytubemq.admin.request_checks import read_bounded
from pytubemq.admin.webapi.authorization import TOKEN_NAMES
from pytubemq.admin.webapi.call_gate import CallGate, names_of, texts_of, with_sets
from pytubemq.admin.webapi.envelope import Reply, check_callback, failure, respond, with_note
from pytubemq.admin.webapi.kinds import shown
from pytubemq.admin.webapi.long_responses import LongResponses
from pytubemq.admin.webapi.method import A, Method, Table
from pytubemq.admin.webapi.params import Args, CallError, read_args
from pytubemq.errors import TubeError
from pytubemq.master.catalogue.audit_trail import ChangeOrigin, NotedCall, change_of, current_origin
from pytubemq.model.limits import MAX_WEBAPI_PARAMS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

logger = logging.getLogger(__name__)

FORM = "application/x-www-form-urlencoded"
INTERNAL = 500
TARGET_NAMES = ("brokerId", "brokerIp", "topicName", "groupName", "consumerId", "sourceGroupName", "targetGroupName")
"""The parameters that name what a call is about; only these are logged, each of them checked."""
UNUSED_NAMES = (
    "unflushThreshold",
    "unflushInterval",
    "unflushDataHold",
    "memCacheMsgSizeInMB",
    "memCacheMsgCntInK",
    "memCacheFlushIntvl",
    "qryPriorityId",
)
"""The parameters about the original's files, cache and read priorities, which pytubemq Brokers do not use."""
SHOWN_TARGETS = 8
MAX_TARGET = 64


class WebApi(Generic[A]):
    """The methods of a table, served by one server."""

    def __init__(self, table: Table[A], server: A, calls: CallGate, *, wall_ms: Callable[[], int]) -> None:
        self._table = table
        self._server = server
        self._calls = calls
        self._wall_ms = wall_ms
        self._long = LongResponses()

    async def answer(self, request: Request) -> Response:
        """Serve a request; the endpoint of a route."""
        callback: str | None = None
        try:
            query = fields(request.scope["query_string"])
            form = await _form(request)
            texts = _joined(query, form)
            name = texts.get("callback", "").strip()
            if name:
                callback = _script_name(name, request.headers)
            reply = await self._reply(request, query, form, texts)
        except CallError as error:
            reply = failure(error.text, error.code)
        return respond(reply, callback)

    async def _reply(
        self, request: Request, query: Mapping[str, str], form: Mapping[str, str], texts: Mapping[str, str]
    ) -> Reply:
        name = texts.get("method", "").strip()
        if not name:
            raise CallError("parameter method is missing: admin_get_methods lists the methods there are")
        method = self._table.find(name)
        peer = "?" if request.client is None else request.client.host
        if method.modify and request.method == "HEAD":
            raise CallError("a HEAD request changes nothing: use GET or POST")
        try:
            caller = await self._calls.enter(request, method.name, modify=method.modify, query=query, form=form)
        except CallError as error:
            logger.warning("%s from %s: refused: %s", method.name, peer, error.text)
            raise
        args = read_args(
            method.params,
            {key: text for key, text in texts.items() if key not in TOKEN_NAMES},
            now_ms=self._wall_ms(),
        )
        names = names_of(args)
        self._calls.authorize(caller, method.name, names, modify=method.modify)
        args = replace(args, may=partial(self._calls.gate.may, caller))
        if not method.modify:
            return await self._run(request, method, args, called=name, peer=peer)
        origin = ChangeOrigin(caller.user, peer, name)
        with change_of(origin):
            reply = await self._run(request, method, args, called=name, peer=peer)
        if reply.get("result") and not origin.noted and (http := self._calls.gate.http) is not None:
            user = caller.user or args.audit.user
            target = targets(args).replace("; ", ", ")
            await http.note(NotedCall(user=user, host=peer, action=name, target=target))
        return with_note(reply, unused_note(args))

    async def _run(self, request: Request, method: Method[A], args: Args, *, called: str, peer: str) -> Reply:
        try:
            # A requested change is made, even if the caller is gone meanwhile.
            async with self._long.answer(_stays if method.modify else request.is_disconnected):
                reply = await method.run(self._server, args)
        except CallError as error:
            reply = failure(error.text, error.code)
        except TubeError as error:
            hint = f": {error.hint}" if error.hint else ""
            reply = failure(f"{error.message}{hint}", error.code or INTERNAL)
        except Exception:
            logger.exception("%s failed", method.name)
            reply = failure("the server failed at this call: its log says more", INTERNAL)
        if method.modify:
            origin = current_origin()  # who was identified, rather than whom the call names
            user = (origin.user if origin is not None else "") or args.audit.user or "?"
            end = "done" if reply.get("result") else "refused"
            about = f" ({named})" if (named := targets(args)) else ""
            logger.info("%s%s by %s from %s: %s", called, about, user, peer, end)
        return reply


async def _stays() -> bool:
    return False


def unused_note(args: Args) -> str:
    """Return the warning about parameters of a change that pytubemq Brokers do not use; blank if it has none."""
    given = {name for one in with_sets(args) for name in UNUSED_NAMES if one.values.get(name) is not None}
    if not given:
        return ""
    named = ", ".join(name for name in UNUSED_NAMES if name in given)
    return f"stored, and passed on to Java Brokers, but without effect on pytubemq Brokers: {named}"


def targets(args: Args) -> str:
    """Return what a call is about, for the log: `topicName orders, demo; brokerId 1`; blank if it names nothing."""
    found: dict[str, dict[str, None]] = {}
    for one in with_sets(args):
        for name in TARGET_NAMES:
            for text in texts_of(one.values.get(name)):
                found.setdefault(name, {})[text] = None
    return "; ".join(f"{name} {_few(tuple(found[name]))}" for name in TARGET_NAMES if name in found)


def _few(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - SHOWN_TARGETS:,} more" if len(texts) > SHOWN_TARGETS else ""
    shown_texts = (text if len(text) <= MAX_TARGET else text[:MAX_TARGET] + "..." for text in texts[:SHOWN_TARGETS])
    return ", ".join(shown_texts) + more


def fields(encoded: bytes) -> dict[str, str]:
    """Return the parameters of a query or a form. Raises CallError: too many, not UTF-8, one of them twice."""
    try:
        pairs = parse_qsl(encoded.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_WEBAPI_PARAMS)
    except UnicodeDecodeError:
        raise CallError("the parameters are not UTF-8: encode them so before percent-encoding") from None
    except ValueError:
        raise CallError(f"there are more than {MAX_WEBAPI_PARAMS} parameters: leave some out") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise _twice(name)
        found[name] = value
    return found


def _joined(query: Mapping[str, str], form: Mapping[str, str]) -> dict[str, str]:
    for name in form:
        if name in query:
            raise _twice(name)
    return {**query, **form}


def _twice(name: str) -> CallError:
    return CallError(f"parameter {shown(name)} is given twice: leave one out")


def _script_name(name: str, headers: Mapping[str, str]) -> str:
    name = check_callback(name)
    if is_cross_site(headers):
        raise CallError("a page of another site asked for a script: parameter callback is for pages of this server")
    return name


async def all_fields(request: Request) -> dict[str, str]:
    """Return the parameters of a request, in its address and in its form. Raises CallError."""
    return _joined(fields(request.scope["query_string"]), await _form(request))


async def _form(request: Request) -> dict[str, str]:
    if request.method != "POST":
        return {}
    kind = request.headers.get("content-type", FORM).partition(";")[0].strip().lower()
    try:
        body = await read_bounded(request)
    except ApiError as error:
        raise CallError(f"{error.message}: {error.hint}") from None
    if body and kind != FORM:
        raise CallError(f"the body is {shown(kind)}: send a form as {FORM}")
    return fields(body)
