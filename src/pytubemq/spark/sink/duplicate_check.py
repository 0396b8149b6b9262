"""The check that a message refused by a Broker as a duplicate is the row that was sent.

A Broker detects a duplicate by its number alone. Where a batch was replayed with other rows, or with the same rows in
another order, a number belongs to another row, which would be lost in silence. The invariant: a duplicate whose offset
the Broker remembers is compared with the stored message, and a difference ends the task. Those of messages that went
one by one are gathered, so that neighbours cost one look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.errors import ConfigError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.batch.payload import decode_payload
from pytubemq.wire.batch.record_batch import read_columns
from pytubemq.wire.text.attributes import parse_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.producer.messages.batch_encoding import EncodedBatches
    from pytubemq.client.producer.receipts import Receipts
    from pytubemq.model.ids import Partition
    from pytubemq.model.message import Receipt
    from pytubemq.sync import Tube

MOST_GATHERED: Final = 4_096
"""Repeats of single messages that wait to be compared."""
MOST_GATHERED_BYTES: Final = 4 << 20
"""Payload of theirs."""


class _Repeat(NamedTuple):
    partition: Partition
    offset: int
    row: int
    payload: bytes
    flag: int


class SingleRepeats:
    """The duplicates among a task's messages that were sent one by one."""

    def __init__(self, tube: Tube, where: str) -> None:
        """Create the check; `where` names the task in errors."""
        self._tube = tube
        self._where = where
        self._found: list[_Repeat] = []
        self._size_bytes = 0

    def add(self, receipt: Receipt, payload: bytes, flag: int, row: int, *, unmarked: bool) -> None:
        """Look at a message's receipt; compares what was gathered when that has become much.

        `unmarked`: the Broker may have responded in a form that does not mark a duplicate.

        Raises:
            ConfigError: another message is stored where one of them should be.
        """
        if receipt.offset is None or not (receipt.repeated or unmarked):
            return
        self._found.append(_Repeat(receipt.partition, receipt.offset, row, payload, flag))
        self._size_bytes += len(payload)
        if len(self._found) >= MOST_GATHERED or self._size_bytes >= MOST_GATHERED_BYTES:
            self.compare()

    def compare(self) -> None:
        """Compare all that was gathered.

        Raises:
            ConfigError: another message is stored where one of them should be.
        """
        found, self._found, self._size_bytes = sorted(self._found), [], 0
        at = 0
        while at < len(found):
            first = found[at]
            stop = at + 1
            while stop < len(found) and found[stop][:2] == (first.partition, first.offset + (stop - at) * OFFSET_UNIT):
                stop += 1
            some = found[at:stop]
            sent = [(repeat.payload, repeat.flag) for repeat in some]
            _compare(self._tube, first.partition, first.offset, sent, [repeat.row for repeat in some], self._where)
            at = stop


def check_repeats(
    tube: Tube, receipts: Receipts, encoded: EncodedBatches, rows: Sequence[int], where: str, *, unmarked: bool = False
) -> None:
    """Compare the duplicates among messages that were sent together with the stored messages.

    Args:
        tube: the connection.
        receipts: theirs.
        encoded: the messages.
        rows: the number of each one's row.
        where: names the task in errors.
        unmarked: of the first one the Broker may have responded in a form that does not mark a duplicate.

    Raises:
        ConfigError: another message is stored there.
    """
    if not receipts.repeated and not unmarked:
        return
    sent: list[tuple[bytes, int]] = []
    for batch in encoded.batches:
        columns = read_columns(batch.columns, check=False)
        sent += [(payload, columns.flag) for payload in columns.payloads()]
    at = 0
    while at < len(receipts):
        receipt = receipts[at]
        if receipt.offset is None or not (receipt.repeated or (unmarked and not at)):
            at += 1
            continue
        stop = at + 1
        while (
            stop < len(receipts)
            and receipts[stop].repeated
            and receipts[stop].offset == receipt.offset + (stop - at) * OFFSET_UNIT
        ):
            stop += 1
        _compare(tube, receipts.partition, receipt.offset, sent[at:stop], rows[at:stop], where)
        at = stop


def _compare(
    tube: Tube, partition: Partition, offset: int, sent: Sequence[tuple[bytes, int]], rows: Sequence[int], where: str
) -> None:
    number = 0
    end = offset + len(sent) * OFFSET_UNIT
    with tube.reader(partition, start=offset, end=end, end_exists=True, on_malformed="raw") as reader:
        for batch in reader.batches():
            for message in batch.messages:
                payload, flag = sent[number]
                body, text = decode_payload(payload, flag)
                attributes, msg_type, msg_time = parse_attributes(text or "")
                if (message.body, dict(message.attributes), message.msg_type, message.msg_time) != (
                    body,
                    attributes,
                    msg_type,
                    msg_time,
                ):
                    raise _other(rows[number], where)
                number += 1


def _other(row: int, where: str) -> ConfigError:
    return ConfigError(
        f"row {row} of {where} was sent before under the same number with other content: "
        "the replay of the batch has other rows, or the same in another order or other Spark partitions",
        hint="planIsMapOnly=true does not hold for this query: set what divides its input (splits of a source, files, "
        "cores) as it was, or use a column idempotencyKey",
    )
