"""The form of responses.

The invariant: every response is one JSON object with `result`, `errCode` and `errMsg`, properly escaped. The HTTP
status is 200 whenever there is such a response, and the envelope of a change is good even when all its items failed: an
item's success is 200, the envelope's 0 (all of this the original's).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from pytubemq.admin.webapi.kinds import DATE_FORMAT
from pytubemq.admin.webapi.long_responses import Turns
from pytubemq.admin.webapi.params import PROP_FIELDS, CallError
from pytubemq.model.ids import UNDEFINED

if TYPE_CHECKING:
    from pytubemq.master.registry.outcome import Outcome
    from pytubemq.model.records import Stamp, TopicProps

Reply = Mapping[str, Any]
"""The object of a response."""

GOOD: Reply = {"result": True, "errCode": 0, "errMsg": "OK"}

_CALLBACK = re.compile(r"[_A-Za-z0-9]{1,64}", re.ASCII)
# JSON may hold these as they are, a script may not.
_SCRIPT_ESCAPES = str.maketrans({"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def rows(data: Iterable[Mapping[str, Any]]) -> Reply:
    """Return a response with the rows of a query, or of a change."""
    found = list(data)
    return {**GOOD, "data": found, "count": len(found)}


async def many_rows(data: Iterable[Mapping[str, Any]]) -> Reply:
    """Return `rows` of a long list: other tasks run meanwhile, so `data` must not depend on what they change."""
    return rows(await Turns().all(data))


def success() -> Reply:
    """Return a success without data."""
    return {**GOOD, "data": []}


def failure(text: str, code: int) -> Reply:
    """Return a failure."""
    return {"result": False, "errCode": code, "errMsg": text}


def with_note(reply: Reply, note: str) -> Reply:
    """Return a reply whose text also has a note; a blank one changes nothing."""
    return {**reply, "errMsg": f"{reply['errMsg']}; {note}"} if note and reply.get("result") else reply


def outcomes(found: Iterable[Outcome], keys: Sequence[str]) -> Reply:
    """Return the outcome of each target; `keys` name the parts of an outcome's key."""
    return rows(
        {
            **dict(zip(keys, outcome.key, strict=True)),
            "success": outcome.ok,
            "errCode": outcome.code,
            "errInfo": outcome.text,
        }
        for outcome in found
    )


def check_callback(name: str) -> str:
    """Return the name of the function that a JSONP response calls. Raises CallError."""
    if not _CALLBACK.fullmatch(name):
        raise CallError("parameter callback must be a name of at most 64 letters, digits or _")
    return name


def respond(reply: Reply, callback: str | None = None) -> Response:
    """Return the HTTP response, as a script where a callback is named."""
    body = msgspec.json.encode(reply)
    headers = {"cache-control": "no-store"}
    if callback is None:
        headers["x-content-type-options"] = "nosniff"
        return Response(body, HTTPStatus.OK, headers, "application/json;charset=utf-8")
    script = f"{callback}({body.decode().translate(_SCRIPT_ESCAPES)})"
    return Response(script, HTTPStatus.OK, headers, "text/plain;charset=utf-8")


def date(wall_ms: int) -> str:
    """Return a time as 14 digits in the server's zone; blank when it is not known."""
    return _date(wall_ms // 1000) if wall_ms > 0 else ""


@lru_cache(1024)
def _date(wall_s: int) -> str:
    return datetime.fromtimestamp(wall_s).astimezone().strftime(DATE_FORMAT)


def who(stamp: Stamp) -> dict[str, Any]:
    """Return the authors and times of a record, as the older queries show them."""
    return {
        "createUser": stamp.create_user,
        "createDate": date(stamp.create_ms),
        "modifyUser": stamp.modify_user,
        "modifyDate": date(stamp.modify_ms),
    }


def base(stamp: Stamp) -> dict[str, Any]:
    """Return the fields of `who` with the version and the serial id."""
    return {"dataVersionId": stamp.data_version_id, "serialId": stamp.serial_id, **who(stamp)}


def old_base(stamp: Stamp) -> dict[str, Any]:
    """Return the fields of `who` with the version."""
    return {"dataVersionId": stamp.data_version_id, **who(stamp)}


def props(values: TopicProps) -> dict[str, Any]:
    """Return the properties of a topic in the original's order; one that nobody set is -2 or blank.

    The durability, which is ours, is the last, and is present only where it was set.
    """
    found = {name: getattr(values, field) for name, field in PROP_FIELDS.items() if name != "durability"}
    shown = {name: value if value is not None else _unset(name) for name, value in found.items()}
    ours = {} if values.durability is None else {"durability": values.durability.value}
    return {**shown, "dataStoreType": UNDEFINED, "dataPath": "", **ours}


def _unset(name: str) -> object:
    return "" if name == "deletePolicy" else UNDEFINED
