"""Whole sessions of a client that is not ours; what C++ and Go do each in their own way is left to `cpp` and `go`.

Such a client knows no held requests: it asks again and again, here as fast as it can instead of every few seconds.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Protocol

from pytubemq.wire.protocol.messages.broker import (
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    GetMessageResponseB2C,
    HeartBeatRequestC2B,
    HeartBeatResponseB2C,
    RegisterRequestC2B,
    RegisterResponseB2C,
    SendMessageRequestP2B,
    SendMessageResponseB2P,
    TransferedMessage,
)
from pytubemq.wire.protocol.messages.master import (
    CloseRequestC2M,
    CloseResponseM2C,
    EventProto,
    HeartRequestC2M,
    HeartRequestP2M,
    HeartResponseM2C,
    HeartResponseM2P,
    RegisterRequestC2M,
    RegisterRequestP2M,
    RegisterResponseM2C,
    RegisterResponseM2P,
)

from .foreign import Foreign, Ways, address_as_int, crc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MASTER, READ = 1, 2
WITHIN_S = 60.0
_BETWEEN_S = 0.02
CONNECT, DISCONNECT, ONLY_CONNECT, ONLY_DISCONNECT = 1, 2, 10, 20


@dataclass(frozen=True)
class Told:
    """A message as its user sees it; `attributes` may hold `$msgType$` and `$msgTime$`."""

    body: bytes
    attributes: Mapping[str, str] = field(default_factory=dict)
    msg_type: str | None = None
    msg_time: str | None = None


class Client(Protocol):
    """What C++ and Go do differently."""

    ways: Ways

    def client_id(self, group: str | None) -> str: ...

    def host_name(self, master: str) -> str: ...

    def conditions(self, filters: Mapping[str, Sequence[str]]) -> tuple[str, ...]: ...

    def partitions(self, brokers: Mapping[int, str], item: str) -> list[tuple[int, int]]:
        """Broker and partition id of each partition in `brokerId:partNum:storeNum`."""
        ...

    def pack(self, message: Told) -> tuple[bytes, int, str | None, str | None]:
        """Payload, flag, `msgType` and `msgTime` of a send."""
        ...

    def unpack(self, payload: bytes, flag: int) -> Told | None: ...

    async def close_producer(self, producer: Producer) -> None: ...


class Links:
    """Connections by address, all with one counter of serial numbers, as these clients have it."""

    def __init__(self, ways: Ways) -> None:
        self._ways = ways
        self._open: dict[str, Foreign] = {}
        self.largest_blocks = 0
        """Of all answers, known once they are closed."""

    async def to(self, address: str) -> Foreign:
        if address not in self._open:
            made = await Foreign.connect(self._ways, address)
            for other in self._open.values():
                made.serials = other.serials
            self._open[address] = made
        return self._open[address]

    async def close(self) -> None:
        """Idempotent."""
        links, self._open = self._open, {}
        for link in links.values():
            self.largest_blocks = max(self.largest_blocks, link.largest_blocks)
            await link.close()


def broker_addresses(infos: Sequence[str]) -> dict[int, str]:
    """`brokerId:host:port`; these clients read a blank port as 8123."""
    found = {}
    for info in infos:
        number, host, port = info.split(":")
        found[int(number)] = f"{host}:{port.strip() or 8123}"
    return found


class Producer:
    """A producer with its topics."""

    def __init__(self, client: Client, master: str, *topics: str) -> None:
        self.client = client
        self.master_address = master
        self.topics = topics
        self.id = client.client_id(None)
        self.links = Links(client.ways)
        self.checksum = -1
        self.brokers: dict[int, str] = {}
        self.partitions: dict[str, list[tuple[int, int]]] = {}
        self.heartbeats = 0

    async def start(self) -> Producer:
        """Register, and heartbeat until every topic has partitions."""
        link = await self.links.to(self.master_address)
        answer = await link.ask(
            RegisterRequestP2M(
                client_id=self.id,
                broker_check_sum=self.checksum,
                host_name=self.client.host_name(self.master_address),
            ),
            RegisterResponseM2P,
            1,
            MASTER,
        )
        assert (answer.success, answer.err_code) == (True, 200), answer.err_msg
        self._learn(answer.broker_check_sum, answer.broker_infos)
        async with asyncio.timeout(WITHIN_S):
            while not all(self.partitions.get(topic) for topic in self.topics):
                await self.heartbeat()
        return self

    def _learn(self, checksum: int, infos: Sequence[str]) -> None:
        if infos:
            self.brokers = broker_addresses(infos)
        self.checksum = checksum

    async def heartbeat(self) -> HeartResponseM2P:
        link = await self.links.to(self.master_address)
        answer = await link.ask(
            HeartRequestP2M(
                client_id=self.id,
                broker_check_sum=self.checksum,
                host_name=self.client.host_name(self.master_address),
                topic_list=self.topics,
            ),
            HeartResponseM2P,
            2,
            MASTER,
        )
        assert (answer.success, answer.err_code) == (True, 200), answer.err_msg
        self.heartbeats += 1
        self._learn(answer.broker_check_sum, answer.broker_infos)
        for info in answer.topic_infos:
            topic, places, *_ = info.split("#")
            known = self.partitions.setdefault(topic, [])
            # never cleared, so duplicates grow with each heartbeat
            known += [place for item in places.split(",") for place in self.client.partitions(self.brokers, item)]
        return answer

    async def send(self, topic: str, *messages: Told) -> None:
        """One after the other, round the partitions."""
        turn = cycle(self.partitions[topic])
        for message in messages:
            broker_id, partition_id = next(turn)
            answer = await self.send_to(broker_id, partition_id, topic, message)
            assert (answer.success, answer.err_code) == (True, 200), answer.err_msg
            assert answer.message_id is not None
            assert answer.err_msg == str(answer.message_id), "old clients read it there"

    async def send_to(self, broker_id: int, partition_id: int, topic: str, message: Told) -> SendMessageResponseB2P:
        data, flag, msg_type, msg_time = self.client.pack(message)
        link = await self.links.to(self.brokers[broker_id])
        return await link.ask(
            SendMessageRequestP2B(
                client_id=self.id,
                topic_name=topic,
                partition_id=partition_id,
                data=data,
                flag=flag,
                check_sum=-1,
                sent_addr=address_as_int("192.168.1.1"),
                msg_type=msg_type,
                msg_time=msg_time,
            ),
            SendMessageResponseB2P,
            13,
            self.client.ways.send_service,
        )

    async def close(self) -> None:
        await self.client.close_producer(self)
        await self.links.close()


class Consumer:
    """A member of a group."""

    def __init__(
        self, client: Client, master: str, group: str, filters: Mapping[str, Sequence[str]], *, position: int = 0
    ) -> None:
        self.client = client
        self.master_address = master
        self.group = group
        self.filters = filters
        self.position = position
        """`readStatus` of the first registration of a partition: 0 from the first message, 1 from the last."""
        self.id = client.client_id(group)
        self.links = Links(client.ways)
        self.held: dict[str, tuple[str, str, int]] = {}
        """Address, topic and partition id by what stands in `subscribeInfo`."""
        self.consumed: dict[str, bool] = {}
        self.seen: set[str] = set()
        self.events = 0
        self.passed_over = 0
        """Messages that came and are not of the filter."""

    async def start(self, *, partitions: int) -> Consumer:
        """Register, and heartbeat until so many partitions are held."""
        link = await self.links.to(self.master_address)
        answer = await link.ask(
            RegisterRequestC2M(
                client_id=self.id,
                group_name=self.group,
                host_name=self.client.host_name(self.master_address),
                topic_list=tuple(self.filters),
                topic_condition=self.client.conditions(self.filters),
                require_bound=False,
                session_time=1_700_000_000_000,
                def_flow_check_id=-2,
                group_flow_check_id=-2,
                qry_priority_id=-2,
            ),
            RegisterResponseM2C,
            4,
            MASTER,
        )
        assert (answer.success, answer.err_code) == (True, 200), answer.err_msg
        await self.until(partitions)
        return self

    async def until(self, partitions: int) -> None:
        """Heartbeat until so many partitions are held."""
        async with asyncio.timeout(WITHIN_S):
            while len(self.held) != partitions:
                await self.heartbeat()
                await asyncio.sleep(_BETWEEN_S)  # the client's pace

    async def heartbeat(self) -> None:
        """A heartbeat, and what it orders."""
        event = await self._beat(None)
        if event is not None and event.rebalance_id and event.rebalance_id > 0:
            done = await self._carry_out(event)
            self.events += 1
            await self._beat(done)

    async def _beat(self, done: EventProto | None) -> EventProto | None:
        link = await self.links.to(self.master_address)
        answer = await link.ask(
            HeartRequestC2M(
                client_id=self.id,
                group_name=self.group,
                report_subscribe_info=done is not None,
                subscribe_info=tuple(self.held) if done is not None else (),
                event=done,
                def_flow_check_id=-2,
                group_flow_check_id=-2,
                qry_priority_id=-2,
            ),
            HeartResponseM2C,
            5,
            MASTER,
        )
        assert (answer.success, answer.err_code) == (True, 200), answer.err_msg
        return answer.event

    async def _carry_out(self, event: EventProto) -> EventProto:
        for info in event.subscribe_info:
            _, broker, partition = info.split("#")
            topic, partition_id = partition.split(":")
            _, host, port = broker.split(":")
            place = (f"{host}:{port}", topic, int(partition_id))
            if event.op_type in (CONNECT, ONLY_CONNECT) and info not in self.held:
                answer = await self._register(place, 31, read_status=0 if info in self.seen else self.position)
                assert (answer.success, answer.err_code) == (True, 200), answer.err_msg
                assert answer.curr_offset is not None
                assert answer.max_offset is not None
                self.held[info] = place
                self.seen.add(info)
            elif event.op_type in (DISCONNECT, ONLY_DISCONNECT) and info in self.held:
                await self._give_back(info)
        return EventProto(
            rebalance_id=event.rebalance_id, op_type=event.op_type, status=2, subscribe_info=event.subscribe_info
        )

    async def _register(self, place: tuple[str, str, int], op_type: int, *, read_status: int) -> RegisterResponseB2C:
        address, topic, partition_id = place
        link = await self.links.to(address)
        return await link.ask(
            RegisterRequestC2B(
                op_type=op_type,
                client_id=self.id,
                group_name=self.group,
                topic_name=topic,
                partition_id=partition_id,
                read_status=read_status,
                filter_cond_str=tuple(sorted(self.filters[topic])),
                qry_priority_id=-2,
            ),
            RegisterResponseB2C,
            15,
            READ,
        )

    async def _give_back(self, info: str) -> None:
        place = self.held.pop(info)
        # both always say that the last batch was not consumed
        answer = await self._register(place, 32, read_status=1)
        assert answer.success, answer.err_msg

    async def beat_brokers(self) -> list[str]:
        """The heartbeats to the Brokers; the partitions they say are lost."""
        lost: list[str] = []
        for address in {address for address, _, _ in self.held.values()}:
            link = await self.links.to(address)
            items = tuple(info.split("#", 1)[1] for info, place in self.held.items() if place[0] == address)
            answer = await link.ask(
                HeartBeatRequestC2B(
                    client_id=self.id, group_name=self.group, read_status=0, partition_info=items, qry_priority_id=-2
                ),
                HeartBeatResponseB2C,
                16,
                READ,
            )
            assert answer.success, answer.err_msg
            lost += answer.failure_info
        return lost

    async def get(self, info: str) -> list[Told] | None:
        """One fetch from a partition, None at its end; what the client keeps of it."""
        address, topic, partition_id = self.held[info]
        link = await self.links.to(address)
        answer = await link.ask(
            GetMessageRequestC2B(
                client_id=self.id,
                partition_id=partition_id,
                group_name=self.group,
                topic_name=topic,
                last_pack_consumed=self.consumed.pop(info, False),
                manual_commit_offset=False,
                esc_flow_ctrl=False,
            ),
            GetMessageResponseB2C,
            17,
            READ,
        )
        if answer.err_code == 404:
            return None
        assert (answer.success, answer.err_code) == (True, 200), answer.err_msg
        assert answer.max_offset is not None
        return [told for message in answer.messages if (told := self._read(topic, message)) is not None]

    def _read(self, topic: str, message: TransferedMessage) -> Told | None:
        """A message as the client hands it on: whole, and past the filter that it applies once more."""
        assert message.check_sum == crc(message.pay_load_data)
        told = self.client.unpack(message.pay_load_data, message.flag)
        wanted = self.filters[topic]
        if told is not None and wanted and told.msg_type is not None and told.msg_type not in wanted:
            self.passed_over += 1
            return None
        return told

    async def confirm(self, info: str, *, consumed: bool = True) -> int:
        """CommitOffset; returns the offset the Broker tells."""
        address, topic, partition_id = self.held[info]
        link = await self.links.to(address)
        answer = await link.ask(
            CommitOffsetRequestC2B(
                client_id=self.id,
                topic_name=topic,
                partition_id=partition_id,
                group_name=self.group,
                last_pack_consumed=consumed,
            ),
            CommitOffsetResponseB2C,
            18,
            READ,
        )
        assert (answer.success, answer.err_code) == (True, 200), answer.err_msg
        assert answer.curr_offset is not None
        return answer.curr_offset

    async def read(self, wanted: int) -> list[Told]:
        """Fetch and confirm round the partitions until so many messages have come."""
        found: list[Told] = []
        async with asyncio.timeout(WITHIN_S):
            while len(found) < wanted:
                for info in list(self.held):
                    got = await self.get(info)
                    if got is None:
                        continue
                    found += got
                    if got:
                        await self.confirm(info)
                await asyncio.sleep(0)
        return found

    async def at_end(self) -> bool:
        """Whether there is nothing more anywhere."""
        return all([await self.get(info) is None for info in self.held])

    async def close(self) -> None:
        """Give everything back and say farewell."""
        for info in list(self.held):
            await self._give_back(info)
        link = await self.links.to(self.master_address)
        answer = await link.ask(CloseRequestC2M(client_id=self.id, group_name=self.group), CloseResponseM2C, 6, MASTER)
        assert answer.success, answer.err_msg
        await self.links.close()
