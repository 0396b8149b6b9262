"""Faults that a hostile server injects into its responses: bad, repeated, missing, misdirected or truncated ones.

The invariant: most responses are those of a correct server, or nearly, so that clients also reach the requests that
follow.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import fields, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

from pytubemq.testing.hostile.corruption import corrupt
from pytubemq.testing.hostile.packs import bad_stored
from pytubemq.testing.hostile.requests import bulk, sound
from pytubemq.testing.hostile.values import NAMES, Scene, Values
from pytubemq.wire.framing.frame import encode_frame
from pytubemq.wire.protobuf.varint import encode_varint
from pytubemq.wire.protocol.messages.broker import GetMessageResponseB2C
from pytubemq.wire.protocol.messages.extension import ReadRangeResponseB2C
from pytubemq.wire.rpc.envelope import encode_exception, encode_response
from pytubemq.wire.rpc.methods import METHODS
from pytubemq.wire.serialization.message_bytes import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.net.server.call import Call

CODES: Final = (200, 301, 400, 401, 403, 404, 410, 411, 412, 415, 419, 422, 424, 430, 431, 443, 450, 452, 455, 500, 503,
                0, -1, 201, 599, 2**31 - 1, -(2**31))  # fmt: skip
KEPT: Final = 64
"""Responses that are kept for the report of a failure."""
_PACKS_TAG: Final = encode_varint(1003 << 3 | 2)


class FaultInjector:
    """The source of one server's bad responses; `cases` counts them, `last` describes the newest."""

    def __init__(self, seed: int, scene: Scene, *, sound_share: float = 0.4) -> None:
        self.seed = seed
        self.scene = scene
        self.sound_share = sound_share
        self.cases = 0
        self.kinds: Counter[str] = Counter()
        self.last: deque[str] = deque(maxlen=KEPT)
        self._kinds: tuple[tuple[float, Callable[[Call, Any, Values], str]], ...] = (
            (42, self._corrupted),
            (8, self._contradiction),
            (8, self._invented),
            (2, self._bulk),
            (6, self._refusal),
            (4, self._exception),
            (4, self._silence),
            (4, self._twice),
            (4, self._other_serial),
            (4, self._other_method),
            (2, self._broken_envelope),
            (2, self._noise),
            (2, self._cut),
        )

    def answer(self, call: Call, message: Any) -> bool:
        """Send a bad response in place of `message`; return False if this request shall get the correct one."""
        random = Random(f"{self.seed}:{self.cases}")
        self.cases += 1
        if random.random() < self.sound_share:
            return False
        values = Values(random, self.scene)
        if not hasattr(message, "__dataclass_fields__"):  # encoded on a fast path
            message = decode(METHODS[call.request.method].response, _encoded(message))
        weights, kinds = zip(*self._kinds, strict=True)
        (kind,) = random.choices(kinds, weights)
        how = kind(call, message, values)
        self.kinds[kind.__name__.strip("_")] += 1
        method = METHODS[call.request.method].method.name
        self.last.append(f"case {self.cases - 1}, {method}: {how}")
        return True

    # --- kinds of faults ------------------------------------------------------------------------------------

    def _corrupted(self, call: Call, message: Any, values: Values) -> str:
        body = _encoded(message)
        if isinstance(message, GetMessageResponseB2C | ReadRangeResponseB2C) and values.random.random() < 0.3:
            pack = bad_stored(values)
            body += _PACKS_TAG + encode_varint(len(pack)) + pack
        bad = corrupt(METHODS[call.request.method].response, body, values)
        call.reply(bad.body)
        return bad.how

    def _contradiction(self, call: Call, message: Any, values: Values) -> str:
        """Send success with the code of a failure, failure with 200, or a failure with fields of a success."""
        names = {field.name for field in fields(message)}
        changed: dict[str, Any] = {"err_code": values.random.choice(CODES)}
        if "success" in names:
            changed["success"] = values.random.random() < 0.5
        if "err_msg" in names and values.random.random() < 0.5:
            changed["err_msg"] = values.text("code text")
        call.reply(_encoded(replace(message, **{name: value for name, value in changed.items() if name in names})))
        return f"contradiction {changed}"[:200]

    def _invented(self, call: Call, message: Any, values: Values) -> str:
        """Send a correct response to another request, made from the schema."""
        made = sound(METHODS[call.request.method].response, values)
        bad = corrupt(type(made), _encoded(made), values, times=values.random.choice((0, 0, 1)))
        call.reply(bad.body)
        return f"invented, {bad.how}"

    def _bulk(self, call: Call, message: Any, values: Values) -> str:
        made, how = bulk(METHODS[call.request.method].response, values, most_bytes=1 << 20)
        call.reply(_encoded(made))
        return how

    def _refusal(self, call: Call, message: Any, values: Values) -> str:
        names = {field.name for field in fields(message)}
        code = values.random.choice(CODES)
        changed = {"success": False, "err_code": code, "err_msg": values.text("code text")}
        call.reply(_encoded(replace(message, **{name: value for name, value in changed.items() if name in names})))
        return f"refusal {code}"

    def _exception(self, call: Call, message: Any, values: Values) -> str:
        name = values.random.choice(
            (*NAMES, "java.lang.Exception", "org.apache.inlong.tubemq.corerpc.exception.StandbyException")
        )
        buffers = encode_exception(
            call.request.serial, fatal=values.random.random() < 0.5, exception_name=name, text=values.text("code text")
        )
        _send(call, buffers)
        return f"exception {name[:40]!r}"

    def _silence(self, call: Call, message: Any, values: Values) -> str:
        _drop(call)
        return "silence"

    def _twice(self, call: Call, message: Any, values: Values) -> str:
        body = _encoded(message)
        for _ in range(values.random.choice((2, 3, 50))):
            _send(call, _response(call, body))
        return "more than one answer"

    def _other_serial(self, call: Call, message: Any, values: Values) -> str:
        serial = values.random.choice((0, -1, call.request.serial + 1, call.request.serial - 1, 2**31 - 1))
        serial = (serial + 2**31) % 2**32 - 2**31
        _send(call, _response(call, _encoded(message), serial=serial))
        return f"serial {serial}"

    def _other_method(self, call: Call, message: Any, values: Values) -> str:
        method = values.random.choice((*METHODS, 0, 127, 2**31 - 1))
        other = METHODS.get(method)
        body = _encoded(sound(other.response, values)) if other is not None else _encoded(message)
        _send(call, _response(call, body, method=method))
        return f"the answer of method {method}"

    def _broken_envelope(self, call: Call, message: Any, values: Values) -> str:
        content = b"".join(_response(call, _encoded(message)))[16:]
        at = values.random.randrange(min(len(content), 40))
        content = content[:at] + bytes([values.random.randrange(256)]) + content[at + 1 :]
        _send(call, encode_frame(call.request.serial, [content]))
        return f"a broken envelope at byte {at}"

    def _noise(self, call: Call, message: Any, values: Values) -> str:
        _send(
            call,
            [
                values.random.choice(
                    (b"\x16\x03\x01\x02\x00", b"HTTP/1.1 400 Bad Request\r\n\r\n", values.random.randbytes(300))
                )
            ],
        )
        return "noise"

    def _cut(self, call: Call, message: Any, values: Values) -> str:
        whole = b"".join(_response(call, _encoded(message)))
        _send(call, [whole[: values.random.randrange(len(whole))]])
        call.connection.close()
        return "a cut answer and the end of the connection"


def _encoded(message: Any) -> bytes:
    if isinstance(message, list):
        return b"".join(message)
    return message if isinstance(message, bytes) else encode(message)


def _response(call: Call, body: bytes, *, serial: int | None = None, method: int | None = None) -> list[bytes]:
    request = call.request
    return encode_response(
        request.serial if serial is None else serial,
        method=request.method if method is None else method,
        body=(body,),
        capabilities=None if request.capabilities is None else call.connection.announce(request),
        block_bytes=None,
    )


def _send(call: Call, buffers: Sequence[bytes]) -> None:
    """Send raw buffers as the response, and mark the call as answered."""
    _drop(call)
    call.connection.send(buffers)


def _drop(call: Call) -> None:
    if not call.answered:
        call.answered = True
        call.connection.count_answered(call.held_bytes)
