"""Methods that change groups' positions, and the kind of value that only they accept: offsets by partition.

The invariants: each change is durable before the response; as in `webapi.kinds`, an accepted value is bounded and of
its kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.admin.broker_api.queries import ONE_GROUP, ONE_TOPIC, PARTITION, TOPICS
from pytubemq.admin.broker_api.response_rows import known
from pytubemq.admin.webapi.envelope import GOOD, Reply, success
from pytubemq.admin.webapi.kinds import GROUP, INT64_MAX, TOPIC, BadValueError, Bool, Int, ListOf, read_json, shown
from pytubemq.admin.webapi.method import Method
from pytubemq.admin.webapi.params import OPS_UPD, Args, CallError, Param
from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.model.limits import MAX_WEBAPI_ITEMS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.broker.service import BrokerService

_GROUPS: Final = Param("groupName", ListOf(GROUP), required=True)
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


async def _set_one(broker: BrokerService, args: Args) -> Reply:
    key = RegistrationKey(args["groupName"], args["topicName"], args["partitionId"])
    before = await broker.offsets.set_one(key, args["manualOffset"], user=args.audit.user)
    return {**GOOD, "oldOffset": known(before)}


async def _set_many(broker: BrokerService, args: Args) -> Reply:
    if not args["manualSet"]:
        if not args["topicName"]:
            raise CallError("parameter topicName is missing: manualSet=false puts groups to the end of named topics")
        return _changed(await broker.offsets.to_end(args["groupName"], args["topicName"], user=args.audit.user))
    if args["offsetJsonInfo"] is None:
        raise CallError("parameter offsetJsonInfo is missing: manualSet=true sets the offsets that it lists")
    return _changed(
        await broker.offsets.set_many(args["groupName"], _ours(broker, args["offsetJsonInfo"]), user=args.audit.user)
    )


def _ours(broker: BrokerService, items: Iterable[OffsetItem]) -> dict[tuple[str, int], int]:
    """Return the items for this Broker: the same object may be sent to each."""
    ours = broker.settings.broker_id
    return {(item.topic, item.partition_id): item.offset for item in items if item.broker_id == ours}


async def _clone(broker: BrokerService, args: Args) -> Reply:
    source, targets = args["sourceGroupName"], args["targetGroupName"]
    return _changed(await broker.offsets.clone(source, targets, args["topicName"], user=args.audit.user))


async def _remove(broker: BrokerService, args: Args) -> Reply:
    return _changed(await broker.offsets.remove(args["groupName"], args["topicName"], user=args.audit.user))


def _changed(count: int) -> Reply:
    """Return the response with the number of changes: 0 means an unknown name, or only keys of another Broker."""
    return {**success(), "changed": count}


METHODS: tuple[Method[BrokerService], ...] = (
    Method(
        "admin_manual_set_current_offset",
        "Set a group's offset in one partition; `oldOffset` is its previous offset, -2 if it had none.",
        True,
        (ONE_TOPIC, ONE_GROUP, PARTITION, Param("manualOffset", Int(0, INT64_MAX), required=True), *OPS_UPD),
        _set_one,
    ),
    Method(
        "admin_set_offset",
        "Set groups' offsets from `offsetJsonInfo` (manualSet=true; those of other Brokers are skipped, each "
        "is brought within what its partition holds), or to the end of topics (manualSet=false).",
        True,
        (
            _GROUPS,
            Param("manualSet", Bool(), required=True),
            Param("offsetJsonInfo", OffsetMap()),
            TOPICS,
            *OPS_UPD,
        ),
        _set_many,
    ),
    Method(
        "admin_clone_offset",
        "Copy the offsets of one group to others, in all its topics if none is named.",
        True,
        (
            Param("sourceGroupName", GROUP, required=True),
            Param("targetGroupName", ListOf(GROUP), required=True),
            TOPICS,
            *OPS_UPD,
        ),
        _clone,
    ),
    Method(
        "admin_rmv_offset",
        "Remove offsets of groups, in all topics if none is named. `onlyMemory` is accepted and makes no difference: "
        "offsets are kept in one place. A group that is "
        "reading begins again at once, at the first stored message.",
        True,
        (_GROUPS, TOPICS, Param("onlyMemory", Bool(), default=False), *OPS_UPD),
        _remove,
    ),
)
