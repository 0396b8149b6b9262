"""Kinds of values that only a Broker's methods accept.

The invariant: as in `webapi.kinds`, an accepted value is bounded and of its kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from pytubemq.admin.webapi.kinds import INT64_MAX, TOPIC, BadValueError, Int, read_json, shown
from pytubemq.model.limits import MAX_WEBAPI_ITEMS

_OFFSET: Final = Int(0, INT64_MAX)
_KEY: Final = re.compile(r"([0-9]{1,10}):([^:]{1,64}):([0-9]{1,10})", re.ASCII)


class OffsetItem(NamedTuple):
    """The offset from which one partition of one Broker is to be read."""

    broker_id: int
    topic: str
    partition_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """Offsets by partition, as one JSON object; percent-decoded once more, as the original does."""

    most: int = MAX_WEBAPI_ITEMS
    shape: str = 'a JSON object such as {"1:demo:0":2800}, brokerId:topicName:partitionId to offset'

    def parse(self, text: str) -> tuple[OffsetItem, ...]:
        found = read_json(text, self.shape, parse_int=str)  # each is read below, as any other offset
        if not isinstance(found, dict):
            raise BadValueError(f"must be {self.shape}")
        if not 0 < len(found) <= self.most:
            raise BadValueError(f"has {len(found):,} partitions: it must have at least 1 and at most {self.most:,}")
        return tuple(_item(key, value) for key, value in found.items())


def _item(key: str, value: object) -> OffsetItem:
    parts = _KEY.fullmatch("".join(key.split()))
    if parts is None:
        raise BadValueError(f"has the key {shown(key)}: it must be brokerId:topicName:partitionId")
    text = value.strip() if isinstance(value, str) else str(value)
    try:
        return OffsetItem(int(parts[1]), TOPIC.parse(parts[2]), int(parts[3]), _OFFSET.parse(text) or 0)
    except BadValueError as error:
        raise BadValueError(f"has at {shown(key)} a value that {error}") from None
