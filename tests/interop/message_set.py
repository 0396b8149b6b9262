"""Messages that follow from the name of their set and their index; the Java driver makes the very same ones.

Most are small; every hundredth fills two blocks of a frame, every five hundredth nine, every thousandth is one byte,
and every five thousandth as large as a topic takes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pytubemq.model.limits import DEFAULT_MAX_MESSAGE_BYTES, MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq import Message

POOL_BYTES = 2 * MIB


@dataclass(frozen=True, slots=True)
class SetMessage:
    """What a producer sends."""

    body: bytes
    attributes: dict[str, str]
    msg_type: str | None
    msg_time: str | None


def make(set_name: str, index: int) -> SetMessage:
    """The message `index` of a set."""
    dice = hashlib.sha256(f"{set_name}:{index}".encode()).digest()
    attributes = {"set": set_name, "i": str(index)}
    if index % 5000 == 4999:
        # At the limit: what is counted is the body's bytes and the attributes' characters.
        taken = len(f"set={set_name},i={index}")
        return SetMessage(_body(dice, DEFAULT_MAX_MESSAGE_BYTES - taken), attributes, None, None)
    attributes[f"k{dice[15] % 5}"] = dice[16:20].hex()
    if index % 50 == 7:
        attributes["long"] = "äö€" * (1 + dice[20])
    msg_type = msg_time = None
    if dice[11] % 8:
        msg_type = f"t{dice[10] % 4}"
        msg_time = f"202601{1 + dice[12] % 28:02}{dice[13] % 24:02}{dice[14] % 60:02}"
    return SetMessage(_body(dice, _size(index, dice)), attributes, msg_type, msg_time)


def digest(body: bytes, attributes: Mapping[str, str], msg_type: str | None, msg_time: str | None) -> str:
    """Sixteen hexadecimal digits that stand for everything a reader sees of a message."""
    sha = hashlib.sha256(body)
    lines = [f"{key}={value}" for key, value in sorted(attributes.items())]
    sha.update(("\n" + "\n".join([*lines, msg_type or "", msg_time or ""])).encode())
    return sha.hexdigest()[:16]


def seen(message: Message) -> tuple[str | None, str | None, str]:
    """What stands for a message in the books: set, number, digest."""
    attributes = message.attributes
    told = digest(message.body, attributes, message.msg_type, message.msg_time)
    return attributes.get("set"), attributes.get("i"), told


@cache
def expected(set_name: str, index: int) -> tuple[str, str | None]:
    """Digest and type of a message of a set."""
    message = make(set_name, index)
    return digest(message.body, message.attributes, message.msg_type, message.msg_time), message.msg_type


def _size(index: int, dice: bytes) -> int:
    if index % 1000 == 0:
        return 1
    if index % 500 == 499:
        return 70_000
    if index % 100 == 99:
        return 9_000
    return 1 + int.from_bytes(dice[:2]) % 300


def _body(dice: bytes, size: int) -> bytes:
    start = int.from_bytes(dice[2:6]) % (POOL_BYTES - size)
    return _pool()[start : start + size]


@cache
def _pool() -> bytes:
    return b"".join(hashlib.sha256(f"pool:{at}".encode()).digest() for at in range(0, POOL_BYTES, 32))
