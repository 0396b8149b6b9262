"""A mock Broker's responses to producers: single messages and record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pytubemq.errors import Code, FormatError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.testing.mock_state import APPEND_TIME_MS, MockMessage
from pytubemq.wire.batch.payload import decode_payload
from pytubemq.wire.batch.record_batch import Columns, read_columns
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages import broker, extension
from pytubemq.wire.rpc.methods import Method
from pytubemq.wire.text.attributes import parse_attributes

if TYPE_CHECKING:
    from pytubemq.testing.mock_state import MockCluster

OK: dict[str, Any] = {"success": True, "err_code": int(Code.SUCCESS), "err_msg": "OK!"}


class Placed(NamedTuple):
    """The number of a stored message; `repeated` if it was stored before."""

    number: int
    repeated: bool


class MockWriting:
    """The Broker's side of producers; part of `MockHandlers`."""

    _mock: MockCluster

    def refusal(self, method: Method, code: int, text: str) -> Any:
        """Return a refusal."""
        raise NotImplementedError  # the class that this is a part of has it

    def _append(
        self, topic: str, partition_id: int, message: MockMessage, producer_id: int | None, sequence: int | None
    ) -> Placed:
        """Store a message, once if its producer has numbered it."""
        partition = self._mock.partitions[topic, partition_id]
        mark = None
        if producer_id is not None and sequence is not None and Capability.IDEMPOTENT in self._mock.capabilities:
            mark = (producer_id, sequence)
            if mark in partition.numbered:
                return Placed(partition.numbered[mark], repeated=True)
            partition.numbered[mark] = partition.end
        partition.messages.append(message)
        return Placed(partition.end - 1, repeated=False)

    def _fault(self, topic: str, partition_id: int, data: bytes) -> tuple[Code, str] | None:
        if partition_id not in range(self._mock.topics.get(topic, 0)):
            return Code.FORBIDDEN, f"topic {topic} has no partition {partition_id}"
        return None if data else (Code.BAD_REQUEST, "the message is empty")

    def _SendMessageRequestP2B(self, request: broker.SendMessageRequestP2B) -> Any:
        fault = self._fault(request.topic_name, request.partition_id, request.data)
        if fault is not None:
            return self.refusal(Method.SEND_MESSAGE_P2B, *fault)
        message = MockMessage(request.data, request.flag, request.msg_type)
        number = self._append(
            request.topic_name, request.partition_id, message, request.producer_id, request.sequence
        ).number
        return broker.SendMessageResponseB2P(
            **OK, message_id=number + 1, append_time=APPEND_TIME_MS, append_offset=number * OFFSET_UNIT
        )

    def _SendPacksRequestP2B(self, request: extension.SendPacksRequestP2B) -> Any:
        topic = request.topic_name
        if topic not in self._mock.topics:
            return self.refusal(Method.SEND_PACKS_P2B, Code.FORBIDDEN, f"there is no topic {topic}")
        if not request.packs:
            return self.refusal(Method.SEND_PACKS_P2B, Code.BAD_REQUEST, "the request has no record batch")
        results = [self._take_pack(topic, entry, request.producer_id) for entry in request.packs]
        bad = [span for spans in results for span in spans if span.err_code != Code.SUCCESS]
        code, text = (bad[0].err_code, bad[0].err_msg or "") if bad else (int(Code.SUCCESS), "OK!")
        return extension.SendPacksResponseB2P(
            success=not bad,
            err_code=code,
            err_msg=text,
            results=tuple(extension.PackResult(spans=tuple(spans)) for spans in results),
            append_time=APPEND_TIME_MS,
        )

    def _take_pack(self, topic: str, entry: extension.PackEntry, producer_id: int | None) -> list[extension.PackSpan]:
        try:
            columns = read_columns(entry.data)
        except FormatError as error:
            return [_refused(1, Code.BAD_REQUEST, error.message)]
        if entry.partition_id not in range(self._mock.topics[topic]):
            text = f"topic {topic} has no partition {entry.partition_id}"
            return [_refused(columns.count, Code.FORBIDDEN, text)]
        partition = self._mock.partitions[topic, entry.partition_id]
        partition.packs += 1
        spans: list[extension.PackSpan] = []
        for at, payload in enumerate(columns.payloads()):
            if not payload:
                spans.append(_refused(1, Code.BAD_REQUEST, "the message is empty"))
                continue
            message = MockMessage(payload, columns.flag_of(at), _type_of(columns, at, payload), pack=partition.packs)
            sequence = None if entry.first_sequence is None else entry.first_sequence + at
            placed = self._append(topic, entry.partition_id, message, producer_id, sequence)
            spans.append(
                extension.PackSpan(
                    count=1,
                    err_code=int(Code.SUCCESS),
                    first_offset=placed.number * OFFSET_UNIT,
                    first_message_id=placed.number + 1,
                    repeated=placed.repeated or None,
                )
            )
        return _joined(spans)


def _refused(count: int, code: int, text: str) -> extension.PackSpan:
    return extension.PackSpan(count=count, err_code=int(code), first_offset=-1, first_message_id=-1, err_msg=text)


def _joined(spans: list[extension.PackSpan]) -> list[extension.PackSpan]:
    """Return spans with neighbours of the same outcome and consecutive offsets joined."""
    found: list[extension.PackSpan] = []
    for span in spans:
        last = found[-1] if found else None
        follows = last is not None and (
            span.first_offset == last.first_offset + last.count * OFFSET_UNIT if span.first_offset >= 0 else True
        )
        if (
            last is not None
            and follows
            and (span.err_code, span.repeated, span.err_msg) == (last.err_code, last.repeated, last.err_msg)
        ):
            found[-1] = extension.PackSpan(
                count=last.count + span.count,
                err_code=last.err_code,
                first_offset=last.first_offset,
                first_message_id=last.first_message_id,
                repeated=last.repeated,
                err_msg=last.err_msg,
            )
        else:
            found.append(span)
    return found


def _type_of(columns: Columns, at: int, payload: bytes) -> str | None:
    """Return a message's type: a record batch has the filter codes; the items themselves are in the attributes."""
    try:
        text = decode_payload(payload, columns.flag_of(at))[1]
    except FormatError:
        return None
    return parse_attributes(text)[1] if text else None
