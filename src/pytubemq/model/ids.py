"""Who and where: brokers, partitions, and the rules for names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from typing import Final

from pytubemq.errors import FormatError, MessageError

UNDEFINED: Final = -2
"""The protocol's "not set" for every id and number."""

STORE_BASE: Final = 10_000
"""`partition_id = store * STORE_BASE + n`; our own topics have one store, so ids count from 0."""

DEFAULT_BROKER_PORT: Final = 8123
DEFAULT_MASTER_PORT: Final = 8715

_TOPIC = re.compile(r"[a-zA-Z]\w{0,63}", re.ASCII)
_GROUP = re.compile(r"[a-zA-Z][\w-]{0,1023}", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A host and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str, *, default_port: int | None = None) -> Address:
        """`host:port`, `[v6]:port`, or a bare host when there is a default port."""
        text = text.strip()
        host, colon, port = text.rpartition(":")
        if not colon or (text.startswith("[") and text.endswith("]")):
            host, port = text, "" if default_port is None else str(default_port)
        bare = host.removeprefix("[").removesuffix("]")
        is_name = bare == host and ":" not in host
        if not bare or not (is_name or _is_ipv6(bare)) or not _is_number(port, most=65535):
            raise FormatError(f"not an address: {text!r}", hint="write host:port, for example 127.0.0.1:8715")
        return cls(bare, int(port))


@dataclass(frozen=True, slots=True, order=True)
class BrokerInfo:
    """A Broker as the cluster names it."""

    broker_id: int
    address: Address


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """A partition of a topic on one Broker; `str()` is the protocol's key `brokerId:topic:partitionId`."""

    broker_id: int
    topic: str
    partition_id: int

    def __str__(self) -> str:
        return f"{self.broker_id}:{self.topic}:{self.partition_id}"

    @classmethod
    def parse(cls, key: str) -> Partition:
        """The inverse of `str`."""
        parts = key.strip().split(":")
        if len(parts) != 3 or not parts[1] or not (_is_number(parts[0]) and _is_number(parts[2])):
            raise FormatError(f"not a partition key: {key!r}", hint="write brokerId:topic:partitionId, as in 1:demo:0")
        return cls(int(parts[0]), parts[1], int(parts[2]))


def _is_number(text: str, *, most: int = 2**31 - 1) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= most


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def check_topic(name: str) -> str:
    """A topic name that every peer takes: a letter, then letters, digits or `_`, at most 64 in all."""
    if not _TOPIC.fullmatch(name):
        raise MessageError(
            f"not a topic name: {name!r}",
            hint="use a letter, then letters, digits or _, at most 64 characters",
            code=400,
        )
    return name


def check_group(name: str) -> str:
    """A group name that every peer takes: a letter, then letters, digits, `_` or `-`."""
    if not _GROUP.fullmatch(name):
        raise MessageError(f"not a group name: {name!r}", hint="use a letter, then letters, digits, _ or -", code=400)
    return name
