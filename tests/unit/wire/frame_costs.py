"""Worst frames of every message, and what each costs to read; run as a process of its own, which one may end.

For each field of each message, also of its parts: as many empty values as fit, short ones, such as are no text, packed
numbers; and unknown fields, groups in a row and within each other. Prints one line of JSON: how many were read, and
those that cost more than a small factor of their size.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytubemq.errors import EnvelopeError
from pytubemq.wire.batch import fetch_batches, send_batches
from pytubemq.wire.fast import send_message
from pytubemq.wire.framing.frame import Frame
from pytubemq.wire.protobuf.schema import Kind, Label, specs
from pytubemq.wire.protobuf.varint import encode_varint
from pytubemq.wire.protocol.messages import broker, extension, rpc
from pytubemq.wire.rpc.envelope import decode_request, decode_response
from pytubemq.wire.rpc.methods import METHODS
from pytubemq.wire.serialization.message_bytes import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MEMORY_FACTOR = 64
"""An empty part of two bytes takes 96 in protobuf: 48 times its size."""
SPARE_BYTES = 4 << 20
CPU_FACTOR = 100
"""Of the time in which Python counts to the frame's size."""
SPARE_CPU_S = 0.05

READERS: dict[type, Callable[[bytes], Any]] = {
    broker.SendMessageRequestP2B: send_message.decode_send,
    broker.SendMessageResponseB2P: send_message.decode_send_response,
    broker.GetMessageResponseB2C: fetch_batches.decode_get_message,
    extension.ReadRangeResponseB2C: fetch_batches.decode_read_range,
    extension.SendPacksRequestP2B: send_batches.decode_send_packs,
    extension.SendPacksResponseB2P: send_batches.decode_send_packs_response,
}
"""The ways of those that have one of their own."""

_BOUNDLESS = (
    b"\xf8\x7f\x01",
    b"\xfa\x7f\x00",
    b"\xf8\x7f\x01\xfa\x7f\x00",
    b"\xfb\x7f\xfc\x7f",
    b"\xfd\x7f1234",
    b"\x03",
)


def minimal(cls: type) -> Any:
    """The shortest message of a class that has all it needs."""
    values = {}
    for attribute, spec in specs(cls).items():
        if spec.label is Label.REQUIRED:
            kind = spec.kind
            if isinstance(kind, Kind):
                values[attribute] = {Kind.STR: "", Kind.BYTES: b"", Kind.BOOL: False}.get(kind, 0)
            else:
                values[attribute] = next(iter(kind)) if issubclass(kind, Enum) else minimal(kind)
    return cls(**values)


def patterns(cls: type, unknown: int = 6) -> Iterator[tuple[str, bytes]]:
    """What to repeat in a message of this class, with a name for each."""
    for number, pattern in enumerate(_BOUNDLESS[:unknown]):
        yield f"unknown {number}", pattern
    for attribute, spec in specs(cls).items():
        tag = encode_varint(spec.number << 3 | 2)
        yield f"{attribute} number", encode_varint(spec.number << 3) + b"\x01"
        yield f"{attribute} empty", tag + b"\x00"
        yield f"{attribute} short", tag + b"\x02\xc3\x28"
        if not isinstance(spec.kind, Kind) and not issubclass(spec.kind, Enum):
            yield f"{attribute} whole", _part(tag, encode(minimal(spec.kind)))
            for name, pattern in patterns(spec.kind, unknown=1):
                yield f"{attribute}.{name}", _part(tag, encode(minimal(spec.kind)) + pattern)


def _part(tag: bytes, content: bytes) -> bytes:
    return tag + encode_varint(len(content)) + content


def frames(cls: type, size: int) -> Iterator[tuple[str, bytes]]:
    """The worst messages of about this size."""
    head = encode(minimal(cls))
    for name, pattern in patterns(cls):
        yield name, head + pattern * (size // len(pattern))
        yield f"{name}, nothing else", pattern * (size // len(pattern))
    for attribute, spec in specs(cls).items():
        tag = encode_varint(spec.number << 3 | 2)
        yield f"{attribute} large", head + _part(tag, b"\x01" * size)
        yield f"{attribute} no text", head + _part(tag, b"\xff" * size)
        if not isinstance(spec.kind, Kind) and not issubclass(spec.kind, Enum):
            for name, pattern in patterns(spec.kind, unknown=1):
                one = encode(minimal(spec.kind)) + pattern * (size // len(pattern))
                yield f"all in one {attribute}.{name}", head + _part(tag, one)


def _in_a_frame(read: Callable[[Frame], object], content: bytes) -> object:
    return read(Frame(1, content))


def cases(size: int) -> Iterator[tuple[str, Callable[[bytes], Any], bytes]]:
    """Name, reader and bytes."""
    messages = {spec.request for spec in METHODS.values()} | {spec.response for spec in METHODS.values()}
    for cls in sorted(messages, key=lambda cls: cls.__name__):
        read = READERS.get(cls)
        for name, body in frames(cls, size):
            yield f"{cls.__name__}: {name}", partial(decode, cls), body
            if read is not None:
                yield f"{cls.__name__}, its own way: {name}", read, body
    for parts, envelope in ((_REQUEST, decode_request), (_RESPONSE, decode_response), (_FAULT, decode_response)):
        for at, cls in enumerate(parts):
            for name, body in frames(cls, size):
                whole = [encode(minimal(part)) for part in parts]
                if cls is rpc.ResponseHeader or parts is _FAULT:
                    whole[1] = b"\x08\x02"
                whole[at] = body
                content = b"".join(encode_varint(len(part)) + part for part in whole)
                yield f"{cls.__name__}: {name}", partial(_in_a_frame, envelope), content


_REQUEST = (rpc.RpcConnHeader, rpc.RequestHeader, rpc.RequestBody)
_RESPONSE = (rpc.RpcConnHeader, rpc.ResponseHeader, rpc.RspResponseBody)
_FAULT = (rpc.RpcConnHeader, rpc.ResponseHeader, rpc.RspExceptionBody)


def peak_bytes() -> int:
    """The most memory that this process had since `forget_peak`."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def forget_peak() -> None:
    """Begin a new measurement, without memory that was freed and kept, which would hide what is taken next."""
    _LIBRARY.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


_LIBRARY = ctypes.CDLL(None)


def main(size: int, number: int = 0, count: int = 1) -> None:
    """Read every frame, or every `count`-th from `number` on, and print the result."""
    started_s = time.process_time()
    for _ in range(size):
        pass
    count_s = time.process_time() - started_s
    read, costly, worst = 0, [], [0.0, 0.0]
    for name, reader, body in islice(cases(size), number, None, count):
        forget_peak()
        before_bytes, started_s = peak_bytes(), time.process_time()
        try:
            result: Any = reader(body)
        except EnvelopeError as error:
            result = error
        cpu_s, grown_bytes = time.process_time() - started_s, peak_bytes() - before_bytes
        text_bytes = len(str(result)) if isinstance(result, EnvelopeError) else 0
        del result
        read += 1
        worst = [max(worst[0], grown_bytes / size), max(worst[1], cpu_s / count_s)]
        if grown_bytes > MEMORY_FACTOR * size + SPARE_BYTES or cpu_s > CPU_FACTOR * count_s + SPARE_CPU_S:
            costly.append(f"{name}: {grown_bytes / size:.0f} times its size, {cpu_s / count_s:.0f} times its count")
        if text_bytes > 8 * 1024:
            costly.append(f"{name}: an error of {text_bytes} bytes")
    print(json.dumps({"read": read, "costly": costly, "worst": worst}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
