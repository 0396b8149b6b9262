"""Identifiers of Brokers, addresses and partitions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.errors import FormatError
from pytubemq.model.names import MAX_PORT, check_broker_id, check_host, check_port, is_host, is_served_topic, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UNDEFINED: Final = -2
"""The protocol's "not set" for every id and number."""

STORE_BASE: Final = 10_000
"""`partition_id = store * STORE_BASE + n`; our own topics have one store, so ids count from 0."""

DEFAULT_BROKER_PORT: Final = 8123
DEFAULT_MASTER_PORT: Final = 8715
DEFAULT_BROKER_TLS_PORT: Final = 8124
DEFAULT_MASTER_TLS_PORT: Final = 8716


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A host and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str, *, default_port: int | None = None) -> Address:
        """Parse `host:port`, `[v6]:port`, or a bare host when there is a default port."""
        text = text.strip()
        host, colon, port = text.rpartition(":")
        if not colon or (text.startswith("[") and text.endswith("]")):
            host, port = text, "" if default_port is None else str(default_port)
        is_bracketed = host.startswith("[") and host.endswith("]")
        bare = host[1:-1] if is_bracketed else host
        if (is_bracketed and ":" not in bare) or not is_host(bare) or not _is_number(port, most=MAX_PORT):
            raise FormatError(f"not an address: {shown(text)}", hint="write host:port, for example 127.0.0.1:8715")
        return cls(bare, int(port))


@dataclass(frozen=True, slots=True, order=True)
class BrokerInfo:
    """A Broker as the cluster names it."""

    broker_id: int
    address: Address

    def check(self) -> BrokerInfo:
        """Return this Broker if every peer can read its id and connect to its address.

        Raises:
            FormatError: the id, the host or the port is invalid; so is a port of 0.
        """
        check_broker_id(self.broker_id)
        check_host(self.address.host)
        check_port(self.address.port)
        return self


class Partition(NamedTuple):
    """A partition of a topic on one Broker; `str()` is the protocol's key `brokerId:topic:partitionId`."""

    # A tuple, not a dataclass: a Master hashes hundreds of thousands for one consumer, and tuples are hashed in C.
    broker_id: int
    topic: str
    partition_id: int

    def __str__(self) -> str:
        return f"{self.broker_id}:{self.topic}:{self.partition_id}"

    @classmethod
    def parse(cls, key: str) -> Partition:
        """Parse the form of `str`."""
        parts = key.strip().split(":")
        if len(parts) != 3 or not is_served_topic(parts[1]) or not (_is_number(parts[0]) and _is_number(parts[2])):
            raise FormatError(
                f"not a partition key: {shown(key)}", hint="write brokerId:topic:partitionId, as in 1:demo:0"
            )
        return cls(int(parts[0]), parts[1], int(parts[2]))


def make_partitions(broker_id: int, topic: str, partition_ids: Iterable[int]) -> Iterator[Partition]:
    """Yield partitions of a topic on a Broker, at a third of what one call for each would cost."""
    return map(partial(tuple.__new__, Partition), zip(repeat(broker_id), repeat(topic), partition_ids))


def _is_number(text: str, *, most: int = 2**31 - 1) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= most
