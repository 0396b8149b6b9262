"""A mock cluster's responses when nothing is scripted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pytubemq.errors import Code
from pytubemq.model.filters import filter_code
from pytubemq.model.ids import Partition
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.testing.mock_balance import MockBalance
from pytubemq.testing.mock_writing import OK, MockWriting
from pytubemq.wire.batch.stored import encode_get_message_response, encode_read_range_response
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages import broker, extension, master
from pytubemq.wire.rpc.methods import METHODS, Method
from pytubemq.wire.text.broker_strings import format_broker_info
from pytubemq.wire.text.topic_strings import TopicBroker, TopicInfo, format_topic_info

if TYPE_CHECKING:
    from pytubemq.net.server.call import Call
    from pytubemq.testing.mock_state import MockCluster, MockPartition

MAX_FETCH = 1000
UNREGISTER = 32
WITHOUT_SUCCESS = (Method.CONSUMER_REGISTER_C2M_V2, Method.CONSUMER_HEARTBEAT_C2M_V2, Method.GET_PART_META_C2M)
"""Methods whose responses have a code and no `success`."""
CONSUMED = 0
"""The `readStatus` of an unregistration whose last fetch was consumed."""
ALWAYS_LATEST = 2


class MockHandlers(MockBalance, MockWriting):
    """The handlers, one method for each kind of request."""

    def __init__(self, mock: MockCluster) -> None:
        self._mock = mock
        self._asker = Capability(0)
        """The capabilities of the peer whose request is being answered."""

    def refusal(self, method: Method, code: int, text: str) -> Any:
        """Return a refusal."""
        response = METHODS[method].response
        if method in WITHOUT_SUCCESS:
            return response(err_code=int(code), err_msg=text)
        extra: dict[str, Any] = {}
        if response in (master.RegisterResponseM2P, master.HeartResponseM2P):
            extra["broker_check_sum"] = -1
        return response(success=False, err_code=int(code), err_msg=text, **extra)

    async def answer(self, call: Call, request: Any) -> Any:
        """Return the usual response, after the wait that the request allows."""
        if isinstance(request, master.HeartRequestC2MV2):
            self._begin_beat(request)
        wait_ms = getattr(request, "max_wait_ms", None) or 0
        if wait_ms and not self._has_news(request):
            await self._wait(request, wait_ms / 1000)
        return self.work(call, request)

    def work(self, call: Call, request: Any) -> Any:
        """Do the work of a request now and return its response."""
        name = type(request).__name__
        handler = getattr(self, f"_{name}", None)
        if handler is None:
            raise NotImplementedError(name)
        self._asker = call.connection.capabilities
        return handler(request)

    async def _wait(self, request: Any, wait_s: float) -> None:
        mock = self._mock
        try:
            async with asyncio.timeout(wait_s):
                while not self._has_news(request):
                    mock.changed.clear()
                    await mock.changed.wait()
        except TimeoutError:
            pass

    def _has_news(self, request: Any) -> bool:
        mock = self._mock
        match request:
            case master.HeartRequestC2M():
                known = request.client_id in mock.consumers
                return bool(not known or mock.queued_events[request.client_id] or request.event)
            case master.HeartRequestC2MV2():
                return self._has_balance_news(request)
            case master.HeartRequestP2M():
                return mock.producers.get(request.client_id) != mock.check_sum
            case broker.GetMessageRequestC2B():
                partition = mock.partitions[request.topic_name, request.partition_id]
                if partition.owners.get(request.group_name) != request.client_id:
                    return True
                start = partition.confirmed.get(request.group_name, 0)
                return bool(partition.select(request.group_name, start, 1)[0])
            case extension.ReadRangeRequestC2B():
                end = mock.partitions[request.topic_name, request.partition_id].end
                return request.offset < end * OFFSET_UNIT
        return True

    # --- the Master -----------------------------------------------------------------------------------------

    def _broker_infos(self) -> tuple[str, ...]:
        return tuple(format_broker_info(one.info) for one in (self._mock, *self._mock.peers))

    def _RegisterRequestP2M(self, request: master.RegisterRequestP2M) -> Any:
        self._mock.producers[request.client_id] = -1
        return master.RegisterResponseM2P(
            **OK, broker_check_sum=self._mock.check_sum, broker_infos=self._broker_infos()
        )

    def _HeartRequestP2M(self, request: master.HeartRequestP2M) -> Any:
        mock = self._mock
        if request.client_id not in mock.producers:
            return self.refusal(Method.PRODUCER_HEARTBEAT_P2M, Code.HB_NO_NODE, f"not registered: {request.client_id}")
        mock.producers[request.client_id] = mock.check_sum
        named = [one for one in (mock, *mock.peers) if one.online or request.want_deployed]
        infos = [
            format_topic_info(
                TopicInfo(
                    topic,
                    tuple(TopicBroker(one.broker_id, one.topics[topic], 1) for one in named if topic in one.topics),
                    mock.max_message_bytes,
                )
            )
            for topic in request.topic_list
            if mock.topics.get(topic) and named
        ]
        brokers = () if request.broker_check_sum == mock.check_sum else self._broker_infos()
        return master.HeartResponseM2P(
            **OK,
            broker_check_sum=mock.check_sum,
            topic_infos=tuple(infos),
            broker_infos=brokers,
            topic_names=tuple(sorted(mock.topics)) if request.want_topic_names else (),
        )

    def _CloseRequestP2M(self, request: master.CloseRequestP2M) -> Any:
        self._mock.producers.pop(request.client_id, None)
        return master.CloseResponseM2P(**OK)

    def _RegisterRequestC2M(self, request: master.RegisterRequestC2M) -> Any:
        mock = self._mock
        for topic in request.topic_list:
            if topic not in mock.topics:
                return self.refusal(
                    Method.CONSUMER_REGISTER_C2M, Code.TOPIC_NOT_DEPLOYED, f"topic {topic} does not exist"
                )
        others = [who for who, group in mock.consumers.items() if group == request.group_name]
        mock.consumers[request.client_id] = request.group_name
        mock.subscriptions[request.client_id] = request.topic_list
        if mock.auto_assign and not others and not request.subscribe_info:
            mock.push_event(
                request.client_id, 10, [p for topic in request.topic_list for p in mock.all_partitions(topic)]
            )
        return master.RegisterResponseM2C(**OK, not_allocated=False)

    def _HeartRequestC2M(self, request: master.HeartRequestC2M) -> Any:
        mock = self._mock
        if request.client_id not in mock.consumers:
            return self.refusal(Method.CONSUMER_HEARTBEAT_C2M, Code.HB_NO_NODE, f"not registered: {request.client_id}")
        events = mock.queued_events[request.client_id]
        if request.event is not None:
            mock.acknowledged.append(request.event)
            if events and events[0].rebalance_id == request.event.rebalance_id:
                events.popleft()
        return master.HeartResponseM2C(**OK, event=events[0] if events else None, not_allocated=False)

    def _CloseRequestC2M(self, request: master.CloseRequestC2M) -> Any:
        self._mock.consumers.pop(request.client_id, None)
        return master.CloseResponseM2C(**OK)

    # --- the Broker: reading --------------------------------------------------------------------------------

    def _RegisterRequestC2B(self, request: broker.RegisterRequestC2B) -> Any:
        mock, group = self._mock, request.group_name
        if request.topic_name not in mock.topics:
            return self.refusal(Method.CONSUMER_REGISTER_C2B, Code.FORBIDDEN, f"there is no topic {request.topic_name}")
        if request.op_type == UNREGISTER:
            return self._unregister(request)
        if request.partition_id not in range(mock.topics[request.topic_name]):
            return self.refusal(Method.CONSUMER_REGISTER_C2B, Code.INTERNAL_SERVER_ERROR, "no such partition")
        partition = mock.partitions[request.topic_name, request.partition_id]
        owner = partition.owners.get(group)
        if owner not in (None, request.client_id):
            return self.refusal(Method.CONSUMER_REGISTER_C2B, Code.PARTITION_OCCUPIED, f"held by {owner}")
        partition.fetched.pop(group, None)
        partition.owners[group] = request.client_id
        partition.filters[group] = frozenset(filter_code(item) for item in request.filter_cond_str)
        if request.read_status == ALWAYS_LATEST:
            partition.confirmed[group] = partition.end
        elif request.curr_offset is not None and request.curr_offset >= 0:
            partition.confirmed[group] = min(request.curr_offset // OFFSET_UNIT, partition.end)
        elif group not in partition.confirmed:
            partition.confirmed[group] = 0 if request.read_status == 0 else partition.end
        return broker.RegisterResponseB2C(
            **OK, curr_offset=partition.confirmed[group] * OFFSET_UNIT, max_offset=partition.end * OFFSET_UNIT
        )

    def _unregister(self, request: broker.RegisterRequestC2B) -> Any:
        partition, group = self._mock.partitions[request.topic_name, request.partition_id], request.group_name
        refusal = self._not_held(partition, group, request.client_id, Method.CONSUMER_REGISTER_C2B)
        if refusal is not None:
            return refusal
        del partition.owners[group]
        fetched = partition.fetched.pop(group, None)
        if request.read_status == CONSUMED and fetched is not None:
            partition.confirmed[group] = fetched
        return broker.RegisterResponseB2C(**OK)

    def _not_held(self, partition: MockPartition, group: str, client_id: str, method: Method) -> Any:
        """Return a refusal, unless the partition is assigned to this client."""
        owner = partition.owners.get(group)
        if owner is None:
            return self.refusal(method, Code.HB_NO_NODE, "not registered")
        return None if owner == client_id else self.refusal(method, Code.DUPLICATE_PARTITION, f"held by {owner}")

    def _HeartBeatRequestC2B(self, request: broker.HeartBeatRequestC2B) -> Any:
        failures: list[str] = []
        for info in request.partition_info:
            topic, _, number = info.rpartition("#")[2].partition(":")
            owner = self._mock.partitions[topic, int(number)].owners.get(request.group_name)
            if owner != request.client_id:
                failures.append(f"{int(Code.HB_NO_NODE if owner is None else Code.DUPLICATE_PARTITION)}:{info}")
        return broker.HeartBeatResponseB2C(**OK, has_part_failure=bool(failures), failure_info=tuple(failures))

    def _GetMessageRequestC2B(self, request: broker.GetMessageRequestC2B) -> Any:
        partition = self._mock.partitions[request.topic_name, request.partition_id]
        group = request.group_name
        refusal = self._not_held(partition, group, request.client_id, Method.GET_MESSAGE_C2B)
        if refusal is not None:
            return refusal
        if request.last_pack_consumed and group in partition.fetched:
            partition.confirmed[group] = partition.fetched.pop(group)
        start = partition.confirmed.get(group, 0)
        numbers, after = partition.select(group, start, request.max_messages or MAX_FETCH)
        if after == start:
            return self.refusal(Method.GET_MESSAGE_C2B, Code.NOT_FOUND, "nothing new")
        if numbers:
            partition.fetched[group] = after
        else:
            partition.confirmed[group] = after
        ours = bool(self._mock.capabilities)
        head = broker.GetMessageResponseB2C(
            **OK,
            curr_offset=start * OFFSET_UNIT,
            max_offset=partition.end * OFFSET_UNIT,
            next_offset=after * OFFSET_UNIT if ours else None,
        )
        return encode_get_message_response(head, self._entries(partition, numbers))

    def _CommitOffsetRequestC2B(self, request: broker.CommitOffsetRequestC2B) -> Any:
        partition = self._mock.partitions[request.topic_name, request.partition_id]
        group = request.group_name
        if partition.owners.get(group) != request.client_id:
            return self.refusal(Method.CONSUMER_COMMIT_C2B, Code.UNAUTHORIZED, "not registered")
        if request.up_to is not None and not 0 <= request.up_to // OFFSET_UNIT <= partition.end:
            text = f"offset {request.up_to} cannot be confirmed"
            return self.refusal(Method.CONSUMER_COMMIT_C2B, Code.BAD_REQUEST, text)
        fetched = partition.fetched.pop(group, None)
        if request.up_to is not None:
            partition.confirmed[group] = max(partition.confirmed.get(group, 0), request.up_to // OFFSET_UNIT)
        elif request.last_pack_consumed is not False and fetched is not None:
            partition.confirmed[group] = fetched
        return broker.CommitOffsetResponseB2C(
            **OK,
            curr_offset=partition.confirmed.get(group, 0) * OFFSET_UNIT,
            max_offset=partition.end * OFFSET_UNIT,
        )

    def _ReadRangeRequestC2B(self, request: extension.ReadRangeRequestC2B) -> Any:
        if request.partition_id not in range(self._mock.topics.get(request.topic_name, 0)):
            return self.refusal(Method.READ_RANGE_C2B, Code.FORBIDDEN, "no such partition")
        if request.offset < 0 or (request.end_offset is not None and request.end_offset < request.offset):
            return self.refusal(Method.READ_RANGE_C2B, Code.BAD_REQUEST, "not a range")
        partition = self._mock.partitions[request.topic_name, request.partition_id]
        end = partition.end if request.end_offset is None else min(partition.end, request.end_offset // OFFSET_UNIT)
        first = request.offset // OFFSET_UNIT
        numbers = list(range(first, min(end, first + (request.max_messages or MAX_FETCH))))
        ends: dict[str, Any] = {"min_offset": 0, "max_offset": partition.end * OFFSET_UNIT}
        if not numbers:
            return extension.ReadRangeResponseB2C(
                success=False, err_code=int(Code.NOT_FOUND), err_msg="nothing there", next_offset=request.offset, **ends
            )
        head = extension.ReadRangeResponseB2C(**OK, next_offset=(numbers[-1] + 1) * OFFSET_UNIT, **ends)
        if request.filters:
            codes = set(map(filter_code, request.filters))
            numbers = [number for number in numbers if partition.messages[number].code in codes]
        return encode_read_range_response(head, self._entries(partition, numbers))

    def _PartitionOffsetsRequest(self, request: extension.PartitionOffsetsRequest) -> Any:
        mock = self._mock
        asked = [Partition(mock.broker_id, one.topic_name, one.partition_id) for one in request.partitions]
        asked = asked or [partition for topic in sorted(mock.topics) for partition in mock.all_partitions(topic)]
        known = [partition for partition in asked if partition.partition_id < mock.topics.get(partition.topic, 0)]
        return extension.PartitionOffsetsResponse(
            **OK,
            partitions=tuple(
                extension.PartitionEnds(
                    topic_name=partition.topic,
                    partition_id=partition.partition_id,
                    min_offset=0,
                    max_offset=mock.partitions[partition.topic, partition.partition_id].end * OFFSET_UNIT,
                    offset_by_time=None
                    if request.not_before_ms is None
                    else mock.partitions[partition.topic, partition.partition_id].offset_at(request.not_before_ms),
                )
                for partition in known
            ),
        )

    def _entries(self, partition: MockPartition, numbers: list[int]) -> list[bytes]:
        return partition.records(numbers, packs=Capability.PACKS in self._asker)
