"""Long lists of partitions that are read in steps, between which an event loop may run.

The invariant: a list that was read is still the same list of strings, and has what their parser returns, or its error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import FormatError
from pytubemq.wire.text.partition_strings import (
    OffsetsParser,
    PartSubInfosParser,
    SubscribedParser,
    parse_part_sub_infos,
    parse_required_partition,
    parse_subscribed,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from pytubemq.model.ids import Partition

STEP: Final = 4_000
"""Partitions that are read in one step, in about 5 ms."""


class ReadPartitions(tuple[str, ...]):
    """Strings that were read: `partitions` is their content, `error` the reason why they cannot be read."""

    partitions: frozenset[Partition] = frozenset()
    error: FormatError | None = None


class ReadOffsets(str):
    """A list of offsets that was read: `wanted` is its content, `error` the reason why it cannot be read."""

    wanted: dict[Partition, int]
    error: FormatError | None = None


def read_subscribed(texts: Sequence[str]) -> Generator[None, None, ReadPartitions]:
    """Read subscriptions, one partition each."""
    read, parser = ReadPartitions(texts), SubscribedParser()
    try:
        for at in range(0, len(texts), STEP):
            parser.add(texts[at : at + STEP])
            yield
        read.partitions = frozenset(parser.found)
    except FormatError as error:
        read.error = error
    return read


def read_part_sub_infos(texts: Sequence[str]) -> Generator[None, None, ReadPartitions]:
    """Read subscriptions of topics; a topic is read in one step."""
    read, parser, count = ReadPartitions(texts), PartSubInfosParser(), 0
    try:
        for text in texts:
            parser.add(text)
            count += 1 + text.count(",")
            if count >= STEP:
                count = 0
                yield
        read.partitions = frozenset(parser.found)
    except FormatError as error:
        read.error = error
    return read


def read_required(text: str) -> Generator[None, None, ReadOffsets]:
    """Read the offsets at which a bound consumer wants to begin."""
    read = ReadOffsets(text)
    try:
        parser = OffsetsParser(text)
        while parser.add(STEP):
            yield
        read.wanted = parser.wanted
    except FormatError as error:
        read.error = error
    return read


def subscribed_partitions(texts: Sequence[str]) -> frozenset[Partition]:
    """Return the partitions of subscriptions, and read them if that is still to be done. Raises FormatError."""
    return _partitions(texts) if isinstance(texts, ReadPartitions) else parse_subscribed(texts)


def part_sub_partitions(texts: Sequence[str]) -> frozenset[Partition]:
    """Return the same of subscriptions by topic. Raises FormatError."""
    return _partitions(texts) if isinstance(texts, ReadPartitions) else parse_part_sub_infos(texts)


def required_offsets(text: str) -> dict[Partition, int]:
    """Return the wanted offsets by partition, and read them if that is still to be done. Raises FormatError."""
    if not isinstance(text, ReadOffsets):
        return parse_required_partition(text)
    if text.error is not None:
        raise text.error
    return text.wanted


def _partitions(read: ReadPartitions) -> frozenset[Partition]:
    if read.error is not None:
        raise read.error
    return read.partitions
