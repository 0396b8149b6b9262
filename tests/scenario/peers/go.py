"""The ways of the Go client.

* It says protocol version 2 and service 2 for whatever it asks of a Broker, sends included.
* CommitOffset goes with flag 10 in the header.
* `topic#` stands in the conditions of a topic whose filter is an empty list.
* The producer's host name is the Master's `host:port`.
* Flag and data of a send are the caller's: no attribute block, no msgType, no msgTime.
* Partition ids ignore the store: 0 to partNum - 1, as often as there are stores.
* Of an attribute it takes what stands between the first and the second `=`.
* The producer says farewell in the ordinary way.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from pytubemq.wire.protocol.messages.master import CloseRequestP2M, CloseResponseM2P

from .foreign import Ways
from .session import MASTER, Producer, Told

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WAYS = Ways(protocol_version=2, first_serial=1, commit_flag=10, send_service=2)


class Go:
    """See the module."""

    ways = WAYS

    def __init__(self) -> None:
        self._clients = count(0)

    def client_id(self, group: str | None) -> str:
        own = f"127.0.0.1-4712-1700000000000-{next(self._clients)}-go-0.1.2"
        return own if group is None else f"{group}_{own}"

    def host_name(self, master: str) -> str:
        return master

    def conditions(self, filters: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        return tuple(f"{topic}#{','.join(items)}" for topic, items in filters.items())

    def partitions(self, brokers: Mapping[int, str], item: str) -> list[tuple[int, int]]:
        broker_id, partitions, stores = map(int, item.split(":"))
        return [(broker_id, number) for _ in range(stores) for number in range(partitions)]

    def pack(self, message: Told) -> tuple[bytes, int, str | None, str | None]:
        return message.body, 0, None, None

    def unpack(self, payload: bytes, flag: int) -> Told | None:
        if not flag & 1:
            return Told(payload)
        size = int.from_bytes(payload[:4], "big", signed=True)
        if not 0 <= size <= len(payload) - 4:
            return None
        items = [item.split("=") for item in payload[4 : 4 + size].decode().split(",")]
        properties = {item[0]: item[1] for item in items if len(item) > 1}
        msg_type, msg_time = properties.pop("$msgType$", None), properties.pop("$msgTime$", None)
        return Told(payload[4 + size :], properties, msg_type, msg_time)

    async def close_producer(self, producer: Producer) -> None:
        link = await producer.links.to(producer.master_address)
        answer = await link.ask(CloseRequestP2M(client_id=producer.id), CloseResponseM2P, 3, MASTER)
        assert answer.success, answer.err_msg
