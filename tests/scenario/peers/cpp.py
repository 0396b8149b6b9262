"""The ways of the C++ client (and of the Python binding around it).

* Zeros follow the request body: each of the three length prefixes is reserved with 4 bytes and takes 1 to 4.
* It says protocol version 2; serial numbers begin with 0 and are one count for the whole process.
* It takes no more than 1,024 blocks of 1 to 8,192 bytes.
* No jdkVersion, no appdConfig, no authInfo on a send. The producer's heartbeat comes every 2 s.
* Properties are a sorted map, so `$msgTime$` stands before `$msgType$`; the flag is set when there are any.
* Conditions are told only of topics that have a filter; a message without a type passes its own filter.
* A partition is given back as "not consumed", whatever was confirmed before.
* The producer's farewell is never filled in: method 0 and no request.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from .foreign import Fault, Ways
from .session import MASTER, Producer, Told

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WAYS = Ways(protocol_version=2, first_serial=0, zeros=True, send_service=3, timeout_ms=9_500)
_VERSION = "0.1.8-C-0.5.0"


class Cpp:
    """See the module."""

    ways = WAYS

    def __init__(self) -> None:
        self._clients = count(1)

    def client_id(self, group: str | None) -> str:
        begin = "PRODUCER" if group is None else group
        return f"{begin}_127.0.0.1-4711-1700000000000-{next(self._clients)}-{_VERSION}"

    def host_name(self, master: str) -> str:
        return "127.0.0.1"

    def conditions(self, filters: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
        return tuple(f"{topic}#{','.join(sorted(items))}" for topic, items in filters.items() if items)

    def partitions(self, brokers: Mapping[int, str], item: str) -> list[tuple[int, int]]:
        broker_id, partitions, stores = map(int, item.split(":"))
        if broker_id not in brokers:
            return []
        return [(broker_id, store * 10_000 + number) for store in range(stores) for number in range(partitions)]

    def pack(self, message: Told) -> tuple[bytes, int, str | None, str | None]:
        properties = dict(message.attributes)
        if message.msg_type is not None:
            properties["$msgType$"] = message.msg_type
        if message.msg_time is not None:
            properties["$msgTime$"] = message.msg_time
        if not properties:
            return message.body, 0, None, None
        text = ",".join(f"{key}={properties[key]}" for key in sorted(properties)).encode()
        return len(text).to_bytes(4, "big") + text + message.body, 1, message.msg_type, message.msg_time

    def unpack(self, payload: bytes, flag: int) -> Told | None:
        if not flag & 1:
            return Told(payload)
        if len(payload) < 4 or (size := int.from_bytes(payload[:4], "big")) > len(payload) - 4:
            return None
        # cut at the first `=`
        properties = dict(item.split("=", 1) for item in payload[4 : 4 + size].decode().split(",") if "=" in item)
        msg_type, msg_time = properties.pop("$msgType$", None), properties.pop("$msgTime$", None)
        return Told(payload[4 + size :], properties, msg_type, msg_time)

    async def close_producer(self, producer: Producer) -> None:
        link = await producer.links.to(producer.master_address)
        answer = await link.exchange(0, b"", service=MASTER)
        assert isinstance(answer, Fault), "there is no such method"
