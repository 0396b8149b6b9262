"""The topics this Broker serves, and their memory on disk.

The invariant: what the Master said last is on disk before it is acted on, so that a Broker that starts while no Master
can be reached serves the same topics as before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from pytubemq.errors import BadRequestError, CorruptError, FormatError, NewerVersionError
from pytubemq.model.durability import parse_durability
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import (
    ATTRIBUTE_ALLOWANCE_BYTES,
    DEFAULT_MAX_MESSAGE_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_PARTITIONS_PER_TOPIC,
)
from pytubemq.model.policy import parse_delete_policy, understood_policy
from pytubemq.model.topic import TopicConfig
from pytubemq.storage.disk import read_exactly, write_all
from pytubemq.wire.confstrings import (
    BrokerDefaultConf,
    BrokerTopicConf,
    parse_broker_default_conf,
    parse_broker_topic_conf,
    parse_topic_values,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.storage.disk import Disk

HISTORY_TOPIC: Final = "__offset_history__"
"""The original's own topic; producers are refused there."""
READABLE_STATUS: Final = 1
"""Up to this status (soft deleted) a topic is read; only status 0 is written."""

_VERSION: Final = 1
_MAX_FILE_BYTES: Final = 64 * 1024 * 1024
FILE: Final = "topics.json"
_NAME_FORM: Final = re.compile(r"[A-Za-z_][\w-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ServedTopic:
    """A topic with what the handlers ask of it per request."""

    config: TopicConfig
    partition_ids: frozenset[int]
    max_payload_bytes: int

    @property
    def writable(self) -> bool:
        """Whether messages are taken."""
        return self.config.status == 0

    @property
    def readable(self) -> bool:
        """Whether messages are handed out."""
        return self.config.status <= READABLE_STATUS


class MasterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration as the Master wrote it: its own strings, which are reported back to it unchanged."""

    version: int = _VERSION
    conf_id: int = 0
    check_sum: int = 0
    default_conf: str = ""
    topic_confs: tuple[str, ...] = ()
    topic_durability: tuple[str, ...] = ()
    topic_retention: tuple[str, ...] = ()
    """What the strings of the original cannot say, as `topic:value`; a Master of the original says none of it."""
    cluster_id: int = UNDEFINED
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    flow_check_id: int = UNDEFINED
    flow_rules: str = ""
    """The cluster's flow-control rules in their normal form; empty for none."""
    qry_priority_id: int = UNDEFINED

    def topics(self) -> list[TopicConfig]:
        """The topics it describes.

        Raises:
            FormatError: a string is not in the form of the protocol; names it.
        """
        if not self.default_conf.strip():
            return []
        default = parse_broker_default_conf(self.default_conf)
        durability = parse_topic_values(self.topic_durability, "a topic's durability")
        retention = parse_topic_values(self.topic_retention, "a topic's retention")
        found = []
        for text in self.topic_confs:
            topic = _topic(parse_broker_topic_conf(text), default, self.max_message_bytes)
            found.append(_beyond(topic, durability.get(topic.name), retention.get(topic.name)))
        return found


class TopicTable:
    """Topics by name. Event loop only."""

    def __init__(self) -> None:
        self._topics: dict[str, ServedTopic] = {}

    def __len__(self) -> int:
        return len(self._topics)

    def __iter__(self) -> Iterator[ServedTopic]:
        return iter(self._topics.values())

    def get(self, name: str) -> ServedTopic | None:
        """The topic, None if it is not served here."""
        return self._topics.get(name)

    def replace(self, configs: Iterable[TopicConfig]) -> None:
        """Serve these and no others."""
        self._topics = {config.name: served(config) for config in configs}


def _topic(conf: BrokerTopicConf, default: BrokerDefaultConf, max_message_bytes: int) -> TopicConfig:
    """One topic's settings with the Broker's defaults filled in.

    Raises:
        FormatError: a name that cannot name a directory, or a number of partitions out of bounds.
    """
    if not _NAME_FORM.fullmatch(conf.topic):
        raise FormatError(
            f"not a topic name: {conf.topic[:100]!r}",
            hint="use a letter or _, then letters, digits, _ or -, at most 64",
        )
    partitions = default.partitions if conf.partitions is None else conf.partitions
    stores = default.stores if conf.stores is None else conf.stores
    if not (
        0 < partitions <= MAX_PARTITIONS_PER_TOPIC and stores > 0 and partitions * stores <= MAX_PARTITIONS_PER_TOPIC
    ):
        raise FormatError(
            f"topic {conf.topic} has {partitions} partitions in {stores} stores",
            hint=f"a Broker takes 1 to {MAX_PARTITIONS_PER_TOPIC} partitions of a topic",
        )
    return TopicConfig(
        name=conf.topic,
        partitions=partitions,
        stores=stores,
        accept_publish=default.accept_publish if conf.accept_publish is None else conf.accept_publish,
        accept_subscribe=default.accept_subscribe if conf.accept_subscribe is None else conf.accept_subscribe,
        delete_policy=conf.delete_policy or default.delete_policy,
        max_message_bytes=max_message_bytes if conf.max_message_bytes is None else conf.max_message_bytes,
        status=conf.status,
    )


def _beyond(topic: TopicConfig, durability: str | None, policy: str | None) -> TopicConfig:
    """A topic with what our Master says of it beyond the original's strings.

    Raises:
        FormatError: this version does not know what was said; nothing is deleted by a guess.
    """
    try:
        return replace(
            topic,
            durability=None if durability is None else parse_durability(durability),
            delete_policy=policy or topic.delete_policy,
            retention=understood_policy(topic.delete_policy) if policy is None else parse_delete_policy(policy),
        )
    except BadRequestError as error:
        raise FormatError(
            f"topic {topic.name}: {error.message}", hint="run a Broker that is as new as its Master"
        ) from error


def served(config: TopicConfig) -> ServedTopic:
    """A topic's limits worked out, with the original's bounds for the size of a message."""
    size = min(max(config.max_message_bytes, DEFAULT_MAX_MESSAGE_BYTES), MAX_MESSAGE_BYTES)
    return ServedTopic(config, frozenset(config.partition_ids()), size + ATTRIBUTE_ALLOWANCE_BYTES)


def load(disk: Disk, directory: Path) -> MasterConfig | None:
    """What `save` wrote last, None if nothing yet. Blocks.

    Raises:
        CorruptError, NewerVersionError: the file is not what this version wrote.
    """
    path = directory / FILE
    if not disk.exists(path):
        return None
    file = disk.open(path)
    try:
        data = read_exactly(file, min(file.size(), _MAX_FILE_BYTES), 0)
    finally:
        file.close()
    return decode(path, data)


def decode(path: Path, data: bytes) -> MasterConfig:
    """What the file `path` says. Raises CorruptError, NewerVersionError."""
    try:
        version = msgspec.json.decode(data, type=Mapping[str, msgspec.Raw])["version"]
        if msgspec.json.decode(version, type=int) > _VERSION:
            raise NewerVersionError(
                f"{path} was written by a newer version", hint="run that version; the file was left untouched"
            )
        return msgspec.json.decode(data, type=MasterConfig)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError) as error:
        raise CorruptError(
            f"{path} cannot be read: {error}", hint="remove it; the Master sends the topics again at the next start"
        ) from error


def save(disk: Disk, directory: Path, config: MasterConfig) -> None:
    """Put the configuration on disk, whole or not at all. Blocks.

    Raises:
        OSError: as the disk raised it; the previous file is intact.
    """
    path, fresh = directory / FILE, directory / f"{FILE}.new"
    if disk.exists(fresh):
        disk.unlink(fresh)
    file = disk.open(fresh, create=True)
    try:
        write_all(file, [msgspec.json.encode(config)], 0)
        file.fdatasync()
    finally:
        file.close()
    disk.rename(fresh, path)
    disk.fsync_dir(directory)
