"""Trace events of messages, recorded by the append path and the handlers.

The invariant: callers check that tracing is on before they call, once for a request or a write.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytubemq.model.durability import Durability
from pytubemq.model.offset import to_offset
from pytubemq.observe.trace_events import GROUP, MESSAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytubemq.broker.registration_key import RegistrationKey
    from pytubemq.net.server.call import Call
    from pytubemq.storage.format.record_range import RecordRange
    from pytubemq.storage.journal.staging import Prepared
    from pytubemq.storage.log.selection import Slice


def record_request(call: Call, topic: str, partition_ids: Iterable[int]) -> None:
    """Record that a request's messages have passed the checks; a partition is listed once for each of its messages."""
    for partition_id, messages in sorted(Counter(partition_ids).items()):
        MESSAGE.record("received", topic=topic, partition=partition_id, messages=messages, peer=call.peer)


def record_early_publication(prepared: Prepared) -> None:
    """Record that messages promised from memory can be read, and are not written yet."""
    _each("published", prepared.runs[: prepared.early_runs], durability=Durability.MEMORY.value)


def record_write(prepared: Prepared, early_count: int) -> None:
    """Record that a block is in the journal and can be read; `early_count` of its runs could be read before."""
    runs = list(prepared.runs)  # they leave the block when they are in their logs
    _each("written", runs, journal=prepared.journal, journal_end=prepared.journal_end, flushed=prepared.flushed)
    _each("published", runs[early_count:])


def record_fetch(call: Call, key: RegistrationKey, consumer_id: str, found: Slice) -> None:
    """Record that a consumer gets messages."""
    MESSAGE.record(
        "fetched", topic=key.topic, partition=key.partition_id, offset=found.start_offset, to=found.next_offset,
        messages=found.count, group=key.group, consumer=consumer_id, peer=call.peer,
    )  # fmt: skip


def record_range_read(call: Call, topic: str, partition_id: int, found: Slice) -> None:
    """Record that a reader without a group gets messages."""
    MESSAGE.record(
        "read", topic=topic, partition=partition_id, offset=found.start_offset, to=found.next_offset,
        messages=found.count, peer=call.peer,
    )  # fmt: skip


def record_confirm(key: RegistrationKey, consumer_id: str, offset: int) -> None:
    """Record that a group's position is as durable as its topic requires."""
    for events in (MESSAGE, GROUP):
        events.record(
            "confirmed", group=key.group, topic=key.topic, partition=key.partition_id, offset=offset,
            consumer=consumer_id,
        )  # fmt: skip


def _each(event: str, runs: Sequence[RecordRange], **more: object) -> None:
    for run in runs:
        MESSAGE.record(
            event, topic=run.topic, partition=run.partition_id, offset=to_offset(run.base_ordinal),
            to=to_offset(run.end_ordinal), messages=run.count, records=run.records, **more,
        )  # fmt: skip
