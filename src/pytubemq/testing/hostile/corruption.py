"""Corruption of correct messages: values, presence, counts, order, wire types, lengths, contradictions.

The invariant: the seed alone determines a corruption, whatever was corrupted before; `Corrupted.how` describes it for
the report of a failure.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pytubemq.testing.hostile.forms import FORM_OF
from pytubemq.wire.protobuf.schema import FieldSpec, Kind, Label, specs
from pytubemq.wire.protobuf.varint import decode_varint, encode_varint

if TYPE_CHECKING:
    from pytubemq.testing.hostile.values import Values

VARINT: Final = 0
FIXED64: Final = 1
DELIMITED: Final = 2
GROUP: Final = 3
FIXED32: Final = 5
_MASK: Final = (1 << 64) - 1
_MOST_REPEATED_BYTES: Final = 1 << 20
"""Most bytes of one field's repetitions; larger frames are a case of their own."""


class Corrupted(NamedTuple):
    """A corrupted message's bytes, and a description of the corruption."""

    body: bytes
    how: str


class _Part(NamedTuple):
    """An encoded field: its number, its wire type and the bytes behind the key."""

    number: int
    wire_type: int
    raw: bytes

    def encode(self) -> bytes:
        return encode_varint(self.number << 3 | self.wire_type) + self.raw


def corrupt(cls: type, body: bytes, values: Values, *, times: int | None = None) -> Corrupted:
    """Return a message of class `cls` with one to three things wrong in it."""
    random = values.random
    done: list[str] = []
    for _ in range(times if times is not None else random.choices((1, 2, 3), (6, 3, 1))[0]):
        parts = _split(body)
        if parts is None:  # not a message any more: more of the same
            return Corrupted(_spoil_bytes(body, values), ", ".join([*done, "bytes"]))
        body, how = _once(cls, parts, values)
        done.append(how)
    return Corrupted(body, ", ".join(done))


def _once(cls: type, parts: list[_Part], values: Values) -> tuple[bytes, str]:
    random = values.random
    fields = specs(cls)
    name = random.choice(list(fields)) if fields else ""
    roll = random.random()
    if fields and roll < 0.55:
        return _set(cls, parts, name, fields[name], values)
    if fields and roll < 0.63:
        kept = [part for part in parts if part.number != fields[name].number]
        return _join(kept), f"without {name}"
    if fields and roll < 0.75:
        return _repeat(parts, name, fields[name], values)
    if fields and roll < 0.82:
        return _other_type(parts, name, fields[name], values)
    if roll < 0.86:
        return _join(random.sample(parts, len(parts))), "shuffled"
    if roll < 0.91:
        number = random.choice((0, 5_000, 19_000, 2**29 - 1, random.randrange(1, 2**29)))
        extra = _Part(number, DELIMITED, _delimited(values.data()))
        return _join([*parts, extra]), f"with an unknown field {number}"
    if roll < 0.93:
        depth = random.choice((1, 90, 110, 10_000))
        return _join(parts) + bytes([9 << 3 | GROUP]) * depth, f"with {depth} open groups"
    return _spoil_bytes(_join(parts), values), "bytes"


def _set(cls: type, parts: list[_Part], name: str, spec: FieldSpec, values: Values) -> tuple[bytes, str]:
    """Give a field a bad value, or a repeated one several."""
    random = values.random
    kept = [part for part in parts if part.number != spec.number]
    mine = [part for part in parts if part.number == spec.number]
    if spec.label is not Label.REPEATED:
        raw = _bad(name, spec, mine[0] if mine else None, values)
        return _join([*kept, raw]), f"{name}={_shown(raw.raw)}"
    bad = [_bad(name, spec, random.choice(mine) if mine else None, values) for _ in range(min(values.count(), 20))]
    both = mine + bad
    random.shuffle(both)
    return _join([*kept, *both]), f"{name} with {len(bad)} bad"


def _bad(name: str, spec: FieldSpec, sound: _Part | None, values: Values) -> _Part:
    """Return a bad value of a field's own kind, or a bad nested message."""
    random = values.random
    kind = spec.kind
    if kind is Kind.STR:
        text = values.text(FORM_OF.get(name)).encode("utf-8", "surrogatepass")
        if random.random() < 0.05:
            text = b"\xff\xfe" + text
        return _Part(spec.number, DELIMITED, _delimited(text))
    if kind is Kind.BYTES:
        data = values.data()
        if sound is not None and random.random() < 0.6:
            data = _spoil_bytes(_content(sound), values)
        return _Part(spec.number, DELIMITED, _delimited(data))
    if isinstance(kind, Kind) or issubclass(kind, Enum):
        number = values.number()
        return _Part(spec.number, VARINT, _varint(random.randint(0, 1) if kind is Kind.BOOL else number))
    inner = _content(sound) if sound is not None else b""
    return _Part(spec.number, DELIMITED, _delimited(corrupt(kind, inner, values, times=1).body))


def _repeat(parts: list[_Part], name: str, spec: FieldSpec, values: Values) -> tuple[bytes, str]:
    """Repeat a field many times, with its own value or an empty one."""
    random = values.random
    mine = [part for part in parts if part.number == spec.number]
    empty = _Part(spec.number, DELIMITED, b"\x00") if _is_delimited(spec) else _Part(spec.number, VARINT, b"\x00")
    one = random.choice([*mine, empty])
    most = max(_MOST_REPEATED_BYTES // (len(one.raw) + 2), 1)
    times = min(max(values.count(), 2), most)
    return _join(parts) + one.encode() * times, f"{name} {times} times more"


def _other_type(parts: list[_Part], name: str, spec: FieldSpec, values: Values) -> tuple[bytes, str]:
    """Give a field another wire type than its own."""
    random = values.random
    own = DELIMITED if _is_delimited(spec) else VARINT
    wire_type = random.choice([one for one in (VARINT, FIXED64, DELIMITED, GROUP, 4, FIXED32, 6, 7) if one != own])
    raw = {VARINT: b"\x01", FIXED64: bytes(8), DELIMITED: b"\x03abc", FIXED32: bytes(4)}.get(wire_type, b"")
    kept = [part for part in parts if part.number != spec.number]
    return _join([*kept, _Part(spec.number, wire_type, raw)]), f"{name} of wire type {wire_type}"


def _spoil_bytes(data: bytes, values: Values) -> bytes:
    """Flip a bit, cut the end off, insert bytes, or change a length."""
    random = values.random
    at = random.randrange(len(data) + 1)
    roll = random.random()
    if roll < 0.4 and at < len(data):
        return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
    if roll < 0.6:
        return data[:at]
    if roll < 0.8:
        return (
            data[:at]
            + random.choice((b"\xff" * 10, b"\x00", b"\x80" * 9 + b"\x01", b"\xff\xff\xff\xff\x0f", b"\x0a\x00" * 200))
            + data[at:]
        )
    return data + values.data()[:64]


def _split(body: bytes) -> list[_Part] | None:
    """Return the encoded fields of a message; None if they cannot be separated."""
    parts = []
    at = 0
    try:
        while at < len(body):
            key, at = decode_varint(body, at)
            start = at
            wire_type = key & 7
            if wire_type == VARINT:
                _, at = decode_varint(body, at)
            elif wire_type == DELIMITED:
                size, at = decode_varint(body, at)
                at += size
            elif wire_type in (FIXED64, FIXED32):
                at += 8 if wire_type == FIXED64 else 4
            else:
                return None
            if at > len(body):
                return None
            parts.append(_Part(key >> 3, wire_type, body[start:at]))
    except (IndexError, ValueError):
        return None
    return parts


def _join(parts: list[_Part]) -> bytes:
    return b"".join([part.encode() for part in parts])


def _content(part: _Part) -> bytes:
    if part.wire_type != DELIMITED:
        return part.raw
    _, at = decode_varint(part.raw, 0)
    return part.raw[at:]


def _delimited(data: bytes) -> bytes:
    return encode_varint(len(data)) + data


def _varint(number: int) -> bytes:
    return encode_varint(number & _MASK)


def _is_delimited(spec: FieldSpec) -> bool:
    kind: Any = spec.kind
    if isinstance(kind, Kind):
        return kind in (Kind.STR, Kind.BYTES)
    return not issubclass(kind, Enum)


def _shown(raw: bytes) -> str:
    return repr(raw[:60]) + ("..." if len(raw) > 60 else "")
