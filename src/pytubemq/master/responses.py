"""Parts that many responses share, and the checks of names in requests.

The invariant: a field that the original always sends is always sent, for its clients read it without looking
whether it is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import Code
from pytubemq.model.ids import UNDEFINED, BrokerInfo
from pytubemq.model.limits import (
    MAX_CLIENT_ID_CHARS,
    MAX_GROUP_CHARS,
    MAX_HOST_CHARS,
    MAX_REGISTRATION_TEXT_BYTES,
    MAX_TOPICS_PER_CLIENT,
)
from pytubemq.model.names import is_plain, shown, unplain
from pytubemq.wire.protocol.messages.master import ApprovedClientConfig, ClusterConfig
from pytubemq.wire.text.strings import format_broker_infos

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytubemq.model.records import BrokerRecord, ClusterRecord

OK = "OK!"
NO_RULES = "[]"
UNCHANGED = " "
SYSTEM_TOPIC = "__offset_history__"
_ITEM_BYTES = 5
"""The longest prefix of a text in a list on the wire, in bytes."""


class RefusalError(Exception):
    """A refusal: the request is answered with this code instead of 200."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def check_client_id(value: str) -> str:
    """Return a client id, trimmed. Raises RefusalError."""
    return _check_undivided(_check(value, "clientId", MAX_CLIENT_ID_CHARS), "clientId")


def check_host(value: str) -> str:
    """Return a host name, trimmed. Raises RefusalError."""
    return _check(value, "hostName", MAX_HOST_CHARS)


def check_group_name(value: str) -> str:
    """Return a group name, trimmed. Raises RefusalError."""
    return _check_undivided(_check(value, "groupName", MAX_GROUP_CHARS), "groupName")


def _check(value: str, name: str, longest: int) -> str:
    value = value.strip()
    if not value:
        raise RefusalError(Code.BAD_REQUEST, f"{name} is missing")
    if len(value) > longest:
        raise RefusalError(Code.BAD_REQUEST, f"{name} has {len(value)} characters, {longest} are allowed")
    if not is_plain(value):
        raise RefusalError(Code.BAD_REQUEST, unplain(value, name))
    return value


def _check_undivided(value: str, name: str) -> str:
    """Check that a name has no `@` or `#`, which divide the strings that it becomes part of. Raises RefusalError."""
    if "@" in value or "#" in value:
        raise RefusalError(Code.BAD_REQUEST, f"{name} {shown(value)} has @ or # in it, give another one")
    return value


def check_topics(names: Iterable[str], *, client: str) -> tuple[str, ...]:
    """Return topic names, trimmed, each once, without blank ones. Raises RefusalError."""
    topics = tuple(dict.fromkeys(stripped for name in names if (stripped := name.strip())))
    if len(topics) > MAX_TOPICS_PER_CLIENT:
        raise RefusalError(
            Code.BAD_REQUEST, f"{client} names {len(topics)} topics, {MAX_TOPICS_PER_CLIENT} are allowed"
        )
    for topic in topics:
        if not is_plain(topic):
            raise RefusalError(Code.BAD_REQUEST, unplain(topic, "topicName"))
    return topics


def check_other_text(size_bytes: int, *lists: Sequence[str], client: str) -> None:
    """Refuse a registration of `size_bytes` whose text outside its lists is too long, in known or unknown fields.

    Raises:
        RefusalError: 400, it is longer than `MAX_REGISTRATION_TEXT_BYTES`.
    """
    if size_bytes <= MAX_REGISTRATION_TEXT_BYTES:
        return
    listed = sum(len("".join(texts).encode()) + _ITEM_BYTES * len(texts) for texts in lists)
    if size_bytes - listed > MAX_REGISTRATION_TEXT_BYTES:
        raise RefusalError(
            Code.BAD_REQUEST,
            f"the registration of {client} has {size_bytes - listed} bytes beside its topics, filters and partitions "
            f"(as in jdkVersion or sessionKey), {MAX_REGISTRATION_TEXT_BYTES} are allowed",
        )


def check_produced(names: Iterable[str], *, client: str) -> tuple[str, ...]:
    """Return the topics that a producer may name. Raises RefusalError."""
    topics = check_topics(names, client=client)
    if SYSTEM_TOPIC in topics:
        raise RefusalError(Code.BAD_REQUEST, f"{SYSTEM_TOPIC} is the system's own topic, nothing can be produced to it")
    return topics


def approved_config(cluster: ClusterRecord, asked: ApprovedClientConfig | None) -> ApprovedClientConfig:
    """Return the message size limit for a client that does not have it yet."""
    known = asked.config_id if asked is not None else 0
    size = cluster.max_message_bytes if known != cluster.stamp.serial_id else None
    return ApprovedClientConfig(config_id=cluster.stamp.serial_id, max_msg_size=size)


def cluster_config(cluster: ClusterRecord, asked: ClusterConfig | None) -> ClusterConfig:
    """Return the message size limit for a Broker that does not have it yet."""
    known = asked.config_id if asked is not None else 0
    size = cluster.max_message_bytes if known != cluster.stamp.serial_id else None
    return ClusterConfig(config_id=cluster.stamp.serial_id, max_msg_size=size)


def broker_infos(brokers: Iterable[BrokerRecord]) -> tuple[str, ...]:
    """Return every configured Broker, running or not; the default port is written as one blank."""
    return format_broker_infos(BrokerInfo(broker.broker_id, broker.address) for broker in brokers)


NO_FLOW_CONTROL = {
    "def_flow_check_id": UNDEFINED,
    "def_flow_control_info": UNCHANGED,
    "group_flow_check_id": UNDEFINED,
    "group_flow_control_info": UNCHANGED,
    "ssd_store_id": UNDEFINED,
    "qry_priority_id": UNDEFINED,
}
"""The fields for a consumer that requests flow control while there is none."""
