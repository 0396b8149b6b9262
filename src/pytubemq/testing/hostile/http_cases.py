"""Bad HTTP requests for the ports of a Master and a Broker.

The invariants: a seed and a number give the same bytes; every call of the JSON API and of both tables of methods is
made with every one of its parameters bad, because they are read from the description and the tables themselves.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pytubemq.admin.broker_api.table import BrokerTable
from pytubemq.admin.openapi import describe
from pytubemq.admin.webapi.dispatch import FORM
from pytubemq.admin.webapi.table import master_table
from pytubemq.testing.hostile.values import NAMES, Scene, Values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytubemq.admin.webapi.method import Table
    from pytubemq.admin.webapi.params import Param

MOST_ITEMS: Final = 30
"""Objects of a list whose values are all drawn: a list of thousands would keep the client from reading meanwhile."""
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a server offers: its verb, its path with `{name}` for a part, the names that it takes and where.

    `in_json` are the keys of a JSON body, `in_query` parameters of a query or a form, of which `fixed` is always
    given; `sets` are those whose value is a JSON list of objects, with the keys of these.
    """

    verb: str
    path: str
    in_query: tuple[str, ...] = ()
    in_json: tuple[str, ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()
    sets: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class HttpCase:
    """One hostile connection: its description, and the bytes to send, in pieces; `leaves` says that it then goes."""

    number: int
    how: str
    pieces: tuple[bytes, ...]
    leaves: bool = False


def master_calls() -> tuple[Call, ...]:
    """Return all calls of a Master's HTTP."""
    kinds = ("consumer", "sub_info", "producer", "broker", "newBroker", "topic_pub", "unbalance_group", "other")
    text = [Call("GET", "/master.htm", ("group", "topic", "id", "ids"), fixed=(("type", kind),)) for kind in kinds]
    return (*_api_calls(), *_table_calls("/webapi.htm", master_table()), *text, *_monitors())


def broker_calls() -> tuple[Call, ...]:
    """Return all calls of a Broker's HTTP."""
    return (*_table_calls("/broker.htm", BrokerTable()), *_monitors())


def _monitors() -> tuple[Call, ...]:
    return tuple(Call("GET", path, ("name",)) for path in ("/", "/metrics", "/health"))


def _table_calls(path: str, table: Table[Any]) -> tuple[Call, ...]:
    def names(params: Iterable[Param]) -> tuple[str, ...]:
        return tuple(name for param in params for name in param.names)

    return tuple(
        Call(
            "GET",
            path,
            (*names(method.params), "callback", "confModAuthToken"),
            fixed=(("method", method.name),),
            sets=tuple((param.name, names(param.items)) for param in method.params if param.items),
        )
        for method in table.methods
    )


def _api_calls() -> tuple[Call, ...]:
    described = describe("")
    kinds = described["components"]["schemas"]
    found = []
    for path, verbs in described["paths"].items():
        for verb, call in verbs.items():
            schema = call.get("requestBody", {}).get("content", {}).get(_JSON, {}).get("schema", {})
            kind = kinds.get(schema.get("$ref", "").rpartition("/")[2], schema)
            query = tuple(one["name"] for one in call.get("parameters", ()) if one.get("in") == "query")
            found.append(Call(verb.upper(), path, query, tuple(kind.get("properties", ()))))
    return tuple(found)


def make_http_case(number: int, seed: int, calls: Sequence[Call], scene: Scene) -> HttpCase:
    """Return the case of that number for a server that offers `calls`."""
    values = Values(Random(f"{seed}:http:{number}"), scene)
    random = values.random
    roll = random.random()
    if roll < 0.03:
        return HttpCase(number, "noise", (_noise(random),))
    call = random.choice(calls)
    how, request = _request(call, values)
    if roll < 0.06:
        more = b"".join(_request(random.choice(calls), values)[1] for _ in range(random.choice((1, 3, 30))))
        lasting = (request + more).replace(b"Connection: close\r\n", b"")
        return HttpCase(number, f"pipelined, then garbage; {how}", (lasting + random.randbytes(40) + b"\r\n\r\n",))
    if roll < 0.09:
        at = random.randrange(1, len(request))
        return HttpCase(number, f"cut; {how}", (request[:at],), leaves=random.random() < 0.7)
    if roll < 0.12:
        step = max(1, len(request) // 40)
        pieces = tuple(request[at : at + step] for at in range(0, len(request), step))
        return HttpCase(number, f"in pieces; {how}", pieces)
    return HttpCase(number, how, (request,), leaves=random.random() < 0.02)


# --- one request -------------------------------------------------------------------------------------------------


def _request(call: Call, values: Values) -> tuple[str, bytes]:
    """Return a description and the bytes of one request, of which some part is bad, or of one that is sound."""
    random = values.random
    query, body, kind = _parameters(call, values)
    verb, path = call.verb, re.sub(r"\{\w+\}", lambda _: quote(_name(values), safe=""), call.path)
    if body is None and call.fixed and random.random() < 0.4:
        verb, query, body, kind = "POST", b"", query, FORM
    headers = {"Host": "127.0.0.1", "Connection": "close"}
    if body is not None:
        headers |= {"Content-Type": kind, "Content-Length": str(len(body))}
    if values.scene.token:
        headers["Authorization"] = f"Bearer {values.scene.token}"
    target = path.encode() + (b"?" + query if query else b"")
    how = f"{verb} {path} {dict(call.fixed).get('method', '')}"
    more: list[bytes] = []
    if random.random() < 0.15:
        bad, part = random.choice(sorted(_ENVELOPES.items()))
        how = f"{bad}; {how}"
        verb, target, body = part(values, verb, target, body, headers, more)
    lines = [b" ".join((verb.encode(), target, b"HTTP/1.1"))]
    lines += [f"{name}: {value}".encode() for name, value in headers.items()]
    return how, b"\r\n".join((*lines, *more, b"", body or b""))


def _parameters(call: Call, values: Values) -> tuple[bytes, bytes | None, str]:
    """Return the query, and the body if there is one with its type."""
    random = values.random
    pairs = list(call.fixed)
    some = random.random()
    for name in call.in_query:
        if random.random() < some:
            pairs.append((name, _sound(name, values) if random.random() < 0.5 else _bad_text(name, call, values)))
    if pairs and random.random() < 0.05:
        pairs.append(random.choice(pairs))
    if random.random() < 0.05:
        pairs.append((values.text(), values.text()))
    query = "&".join(f"{quote(name, safe='')}={_encoded(value, random)}" for name, value in pairs).encode()
    if query and random.random() < 0.06:
        at = random.randrange(len(query))
        query = query[:at] + random.choice((b"%ff", b"%", b"%00", b"&&==", b"%C3%28", b"%ED%A0%80", b";")) + query[at:]
    if call.in_json or call.verb in ("POST", "PATCH"):
        kind = _JSON if random.random() < 0.9 else random.choice(("", "text/plain", FORM, _JSON + "; charset=utf-16"))
        return query, _json(call.in_json, values), kind
    return query, None, ""


def _json(keys: Sequence[str], values: Values) -> bytes:
    """Return a JSON body: an object with bad values, or what is no object, or no JSON."""
    random = values.random
    roll = random.random()
    if roll < 0.05:
        deep = random.choice((100, 990, 1_100, 100_000))
        opening = random.choice((b"[", b'{"a":', b'{"name":'))
        return opening * deep
    if roll < 0.1:
        return random.choice(
            (b"", b"null", b"[]", b"7", b'"x"', b"\xff\xfe", b'{"name": "\xed\xa0\x80"}', b'{"name": "\\ud800"}',
             b"{", b"}", b'{"a": 1,}', b'{"partitions": ' + b"9" * 6_000 + b"}", b'{"partitions": 1e999}', b"NaN",
             b'{"name": ' + b'"' + b"n" * 1_100_000 + b'"}')
        )  # fmt: skip
    given: dict[str, Any] = {
        key: _sound(key, values) if random.random() < 0.4 else _bad_value(key, values)
        for key in keys
        if random.random() < 0.7
    }
    if random.random() < 0.05:
        given[values.text()] = values.number()
    if "topics" in given and random.random() < 0.7:
        given["topics"] = [
            {"name": _name(values), random.choice(("partitions", "retention", "x")): _bad_value("", values)}
            for _ in range(min(values.count(), MOST_ITEMS))
        ]
    text = json.dumps(given, ensure_ascii=random.random() < 0.5).encode(errors="surrogatepass")
    if random.random() < 0.05:
        at = random.randrange(len(text))
        text = text[:at] + random.randbytes(2) + text[at + 2 :]
    return text


_SOUND: Final[dict[str, Callable[[Values], str]]] = {
    "topic": Values.topic,
    "group": lambda values: values.scene.group,
    "broker": lambda values: str(values.broker_id()),
    "partition": lambda values: str(values.partition_id()),
    "user": lambda values: "me",
    "date": lambda values: "20260131120000",
    "offset": lambda values: str(28 * values.random.randrange(5)),
    "name": Values.topic,
    "num": lambda values: values.random.choice(("1", "2", "10")),
    "port": lambda values: values.random.choice(("8123", "8124")),
    "ip": lambda values: "127.0.0.1",
    "delete": lambda values: values.random.choice(("delete,72h", "keep")),
    "retention": lambda values: values.random.choice(("72h", "10GB", "forever", "default")),
    "to": lambda values: values.random.choice(("earliest", "latest", "-10m", "offset:28", "number:1")),
}


def _sound(name: str, values: Values) -> str:
    """Return a value that a parameter of that name may well have."""
    for part, made in _SOUND.items():
        if part in name.lower():
            return made(values)
    return values.random.choice(("1", "0", "true", "false", "a", "demo", "10"))


def _name(values: Values) -> str:
    return values.topic() if values.random.random() < 0.5 else values.text("topic")


def _bad_text(name: str, call: Call, values: Values) -> str:
    random = values.random
    keys = dict(call.sets).get(name)
    if keys is not None and random.random() < 0.9:
        items = [
            {key: _sound(key, values) if random.random() < 0.6 else _bad_value(key, values) for key in keys}
            for _ in range(min(values.count(), MOST_ITEMS))
        ]
        return json.dumps(items)
    roll = random.random()
    if roll < 0.3:
        return str(values.number())
    if roll < 0.4:
        return json.dumps(_bad_value(name, values))
    if roll < 0.45:
        return random.choice(("[" * 1_000, "9" * 5_000, "1e999", "NaN", "-0", "0x10", "1_000", "+1", " 1 "))
    return values.text()


def _bad_value(name: str, values: Values) -> Any:
    """Return a JSON value of any type."""
    random = values.random
    made: tuple[Callable[[], Any], ...] = (
        values.number, values.text, values.text, lambda: None, lambda: random.choice((True, False)), lambda: [],
        dict, lambda: [random.choice(NAMES)] * values.count(), lambda: 1.5, lambda: -0.0, lambda: 2**70,
        lambda: {name: {name: values.text()}}, lambda: [[[]]],
    )  # fmt: skip
    return random.choice(made)()


def _encoded(text: str, random: Random) -> str:
    plain = text.encode(errors="surrogatepass")
    return quote(plain, safe="") if random.random() < 0.9 else quote(quote(plain))


# --- around a request --------------------------------------------------------------------------------------------

Envelope = tuple[str, bytes, "bytes | None"]


def _verb(
    values: Values, verb: str, target: bytes, body: bytes | None, headers: dict[str, str], more: list[bytes]
) -> Envelope:
    verbs = ("HEAD", "PUT", "DELETE", "PATCH", "POST", "OPTIONS", "TRACE", "CONNECT", "PRI", "get", "X" * 5_000, "G T")
    return values.random.choice(verbs), target, body


def _path(
    values: Values, verb: str, target: bytes, body: bytes | None, headers: dict[str, str], more: list[bytes]
) -> Envelope:
    random = values.random
    paths = (
        b"/../../etc/passwd", b"/api/v1/topics/%2e%2e%2f", b"*", b"http://example.invalid/api/v1/topics", b"//", b"",
        b"/api/v1/topics/" + b"t" * 60_000, b"/api/v1/topics/%00", b"/api/v1/groups/%ff%fe", b"/\xff\xfe", b"/a b",
        b"/webapi.htm/..", b"/api/v1/", b"/api/v2/topics", b"/%" + b"2" * 3, b"/\xc3\xa9", b"/?" + b"a=1&" * 10_000,
    )  # fmt: skip
    return verb, random.choice(paths), body


def _header(
    values: Values, verb: str, target: bytes, body: bytes | None, headers: dict[str, str], more: list[bytes]
) -> Envelope:
    random = values.random
    more += random.choice(
        (
            [b"X-Long: " + b"x" * 70_000],
            [b"X-%d: 1" % number for number in range(2_000)],
            [b"Authorization: Bearer \xff"], [b"Authorization: Bearer " + b"t" * 10_000], [b"Cookie: \x01"],
            [b"no colon"], [b": no name"], [b" folded"], [b"Bad Name: 1"], [b"Transfer-Encoding: gzip"],
            [b"Expect: 100-continue"], [b"Upgrade: websocket", b"Connection: upgrade"], [b"Upgrade: h2c"],
            [b"Content-Encoding: gzip"], [b"Range: bytes=5-1"], [b"Accept: " + b"a/b;q=9," * 3_000], [b"Host: second"],
            [b"Origin: http://example.invalid", b"Sec-Fetch-Site: cross-site"], [b"X-Nul: a\0b"],
        )
    )  # fmt: skip
    return verb, target, body


def _host(
    values: Values, verb: str, target: bytes, body: bytes | None, headers: dict[str, str], more: list[bytes]
) -> Envelope:
    text = values.form("host") if values.random.random() < 0.5 else values.text()
    headers["Host"] = re.sub(r"[\r\n]", "", text).encode("utf-8", "replace").decode("latin-1")
    return verb, target, body


def _length(
    values: Values, verb: str, target: bytes, body: bytes | None, headers: dict[str, str], more: list[bytes]
) -> Envelope:
    random = values.random
    lengths = ("-1", "", "x", "+5", "0x5", "9" * 30, str(len(body or b"") + 10), "0", "1, 2", "\u0665")
    headers["Content-Length"] = random.choice(lengths)
    if random.random() < 0.3:
        more.append(b"Content-Length: 3")
    return verb, target, body


def _chunks(
    values: Values, verb: str, target: bytes, body: bytes | None, headers: dict[str, str], more: list[bytes]
) -> Envelope:
    random = values.random
    body = body or b"{}"
    if random.random() < 0.7:
        headers.pop("Content-Length", None)
    headers["Transfer-Encoding"] = random.choice(("chunked", "chunked, chunked", "CHUNKED"))
    size = b"%x" % len(body)
    framed = random.choice(
        (
            size + b"\r\n" + body + b"\r\n0\r\n\r\n",
            b"".join(b"1\r\n%c\r\n" % byte for byte in body[:3_000]) + b"0\r\n\r\n",
            b"-1\r\n" + body, b"f" * 30 + b"\r\n" + body, b"zz\r\n" + body, size + b";x=" + b"y" * 5_000 + b"\r\n",
            b"100000\r\n" + bytes(1 << 20) + b"\r\n" + b"100000\r\n" + bytes(1 << 20) + b"\r\n0\r\n\r\n",
            b"0\r\n" + b"T: 1\r\n" * 2_000 + b"\r\n",
        )
    )  # fmt: skip
    return verb if verb != "GET" else "POST", target, framed


_ENVELOPES: Final = {
    "verb": _verb,
    "path": _path,
    "header": _header,
    "host": _host,
    "length": _length,
    "chunks": _chunks,
}


def _noise(random: Random) -> bytes:
    return random.choice(
        (
            random.randbytes(random.randrange(1, 2_000)),
            b"\x16\x03\x01\x02\x00\x01",
            b"\r\n" * 5_000,
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET / HTTP/1.0\r\n\r\n",
            b"GET /\r\n\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"A" * 100_000,
        )
    )
