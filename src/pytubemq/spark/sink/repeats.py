"""Whether what a Broker takes for a repeat is one.

A Broker knows a repeat by its number alone. Where a batch was replayed with other rows, or with the same rows in
another order, a number stands for another row, which would be lost without a word. The invariant: a repeat whose place
the Broker remembers is compared with what stands there, and a difference ends the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.attributes import parse_attributes
from pytubemq.wire.pack import read_columns
from pytubemq.wire.payload import decode_payload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.client.many import EncodedMany
    from pytubemq.client.receipts import Receipts
    from pytubemq.sync import Tube


def check_repeats(tube: Tube, receipts: Receipts, encoded: EncodedMany, rows: Sequence[int], where: str) -> None:
    """Compare the repeated ones of messages that were sent together with what stands in their partition.

    Args:
        tube: the connection.
        receipts: theirs.
        encoded: the messages.
        rows: the number of each one's row.
        where: names the task in errors.

    Raises:
        ConfigError: another message stands there.
    """
    sent: list[tuple[bytes, int]] = []
    for pack in encoded.packs:
        columns = read_columns(pack.columns, check=False)
        sent += [(payload, columns.flag) for payload in columns.payloads()]
    at = 0
    while at < len(receipts):
        receipt = receipts[at]
        if not receipt.repeated or receipt.offset is None:
            at += 1
            continue
        stop = at + 1
        while (
            stop < len(receipts)
            and receipts[stop].repeated
            and receipts[stop].offset == receipt.offset + (stop - at) * OFFSET_UNIT
        ):
            stop += 1
        _compare(tube, receipts, receipt.offset, sent[at:stop], rows[at:stop], where)
        at = stop


def _compare(
    tube: Tube, receipts: Receipts, offset: int, sent: Sequence[tuple[bytes, int]], rows: Sequence[int], where: str
) -> None:
    number = 0
    end = offset + len(sent) * OFFSET_UNIT
    with tube.reader(receipts.partition, start=offset, end=end, end_exists=True, on_malformed="raw") as reader:
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
        f"row {row} of {where} was sent before under the same number with something else in it: "
        "the replay of the batch has other rows, or the same in another order or other Spark partitions",
        hint="planIsMapOnly=true does not hold for this query: set what divides its input (splits of a source, files, "
        "cores) as it was, or use a column idempotencyKey",
    )
