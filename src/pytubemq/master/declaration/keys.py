"""The keys of a declaration, each with the field of a record that it stands for, and the check of its value.

The invariant: an exported value passes its check and becomes the value that it was exported from. The bounds are those
of the HTTP API.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from pytubemq.core.flow import format_rules, parse_rules
from pytubemq.errors import BadRequestError, Code, FormatError
from pytubemq.model.durability import Durability, parse_durability
from pytubemq.model.limits import (
    MAX_FILTER_ITEM_CHARS,
    MAX_FILTER_ITEMS,
    MAX_MESSAGE_BYTES,
    MAX_PARTITIONS_PER_TOPIC,
)
from pytubemq.model.names import MAX_PORT
from pytubemq.model.policy import check_delete_policy, policy_of_retention, retention_of_policy
from pytubemq.model.records import ManageStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytubemq.master.declaration.declaration import Declared

DEFAULT: Final = "default"
"""The value that leaves a setting to the layer below."""
MAX_REASON_CHARS: Final = 1_024
_INT32_MAX: Final = 2**31 - 1
_FILTER_ITEM: Final = re.compile(r"[_A-Za-z0-9-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """A key: its field, the check that returns the field's value, and the way back; None is not exported."""

    field: str
    check: Callable[[Any], Any]
    shown: Callable[[Any], Any] = lambda value: value


def given(part: Declared, keys: Mapping[str, DeclaredKey], path: str) -> dict[str, Any]:
    """Return the checked values of the keys that a part gives, by field.

    Raises:
        BadRequestError: a value is not allowed; the error names the key with its path.
    """
    found = {}
    for name, key in keys.items():
        if (value := getattr(part, name)) is UNSET:
            continue
        try:
            found[key.field] = key.check(value)
        except (BadRequestError, FormatError) as error:
            raise wrong(f"{path}.{name}", error.message, error.hint) from error
    return found


def shown(record: object, keys: Mapping[str, DeclaredKey]) -> dict[str, Any]:
    """Return the keys for the fields of a record, without those that are None."""
    values = {name: (key, getattr(record, key.field)) for name, key in keys.items()}
    return {name: key.shown(value) for name, (key, value) in values.items() if value is not None}


def wrong(path: str, message: str, hint: str | None = None) -> BadRequestError:
    """Return the error for a key, a name or a value of a declaration."""
    return BadRequestError(f"{path}: {message}", hint=hint, code=Code.BAD_REQUEST)


def _whole(least: int, most: int = _INT32_MAX) -> Callable[[int], int]:
    def check(value: int) -> int:
        if not least <= value <= most:
            raise FormatError(f"is {value}", hint=f"it must be between {least} and {most}")
        return value

    return check


def _priority(value: int) -> int:
    if not 101 <= value <= 303 or value % 100 not in (1, 2, 3):
        raise FormatError(f"is {value}", hint="it must be a digit 1, 2 or 3, then 0, then 1, 2 or 3, as in 301")
    return value


def _policy(text: str) -> str | None:
    return None if text.strip().lower() == DEFAULT else policy_of_retention(text)


def _retention(policy: str) -> str:
    try:
        return retention_of_policy(check_delete_policy(policy))
    except BadRequestError:
        return retention_of_policy(policy)


def _durability(text: str) -> Durability | None:
    return None if text.strip().lower() == DEFAULT else parse_durability(text)


def _rules(text: str) -> str:
    return format_rules(parse_rules(text))


def _shown_rules(text: str) -> str:
    try:
        return _rules(text)
    except FormatError:  # written by an earlier version; the check of an import names what is wrong with it
        return text


def _reason(text: str) -> str:
    if len(text) > MAX_REASON_CHARS or not text.isprintable():
        raise FormatError("is too long or has unprintable characters", hint=f"at most {MAX_REASON_CHARS} characters")
    return text


def _filter_items(items: list[str]) -> frozenset[str]:
    if len(items) > MAX_FILTER_ITEMS:
        raise FormatError(f"has {len(items)} items", hint=f"at most {MAX_FILTER_ITEMS} are allowed")
    for item in items:
        if len(item) > MAX_FILTER_ITEM_CHARS or not _FILTER_ITEM.fullmatch(item):
            raise FormatError(
                f"{item[:80]!r} is no filter item",
                hint=f"use letters, digits, _ or -, at most {MAX_FILTER_ITEM_CHARS} characters",
            )
    return frozenset(items)


def _status(text: str) -> ManageStatus:
    for status in ManageStatus:
        if text == status.text:
            return status
    raise FormatError(f"{text[:80]!r} is no status of a Broker", hint=", ".join(one.text for one in ManageStatus))


def _same(value: bool) -> bool:
    return value


_BYTES: Final = DeclaredKey("max_message_bytes", _whole(1, MAX_MESSAGE_BYTES))
_PRIORITY: Final = DeclaredKey("qry_priority_id", _priority)
_FLOW: Final = {
    "flow_ctrl_enable": DeclaredKey("flow_ctrl_enable", _same),
    "flow_ctrl_info": DeclaredKey("flow_ctrl_info", _rules, _shown_rules),
}

SETTINGS: Final[Mapping[str, DeclaredKey]] = {
    "partitions": DeclaredKey("num_partitions", _whole(1, MAX_PARTITIONS_PER_TOPIC)),
    "num_topic_stores": DeclaredKey("num_topic_stores", _whole(1, MAX_PARTITIONS_PER_TOPIC)),
    "retention": DeclaredKey("delete_policy", _policy, _retention),
    "durability": DeclaredKey("durability", _durability, lambda value: value.value),
    "accept_publish": DeclaredKey("accept_publish", _same),
    "accept_subscribe": DeclaredKey("accept_subscribe", _same),
    "unflush_threshold": DeclaredKey("unflush_threshold", _whole(0)),
    "unflush_interval": DeclaredKey("unflush_interval", _whole(1)),
    "unflush_data_hold": DeclaredKey("unflush_data_hold", _whole(0)),
    "mem_cache_msg_size_in_mb": DeclaredKey("mem_cache_msg_size_in_mb", _whole(2, 2_048)),
    "mem_cache_msg_cnt_in_k": DeclaredKey("mem_cache_msg_cnt_in_k", _whole(1)),
    "mem_cache_flush_intvl": DeclaredKey("mem_cache_flush_intvl", _whole(4_000)),
}
"""Keys for the properties of topics at any layer."""
CLUSTER: Final[Mapping[str, DeclaredKey]] = {
    "max_message_bytes": _BYTES,
    "qry_priority_id": _PRIORITY,
    **_FLOW,
    "broker_port": DeclaredKey("broker_port", _whole(1, MAX_PORT)),
    "broker_tls_port": DeclaredKey("broker_tls_port", _whole(1, MAX_PORT)),
    "broker_web_port": DeclaredKey("broker_web_port", _whole(1, MAX_PORT)),
}
BROKER: Final[Mapping[str, DeclaredKey]] = {
    "tls_port": DeclaredKey("tls_port", _whole(1, MAX_PORT)),
    "web_port": DeclaredKey("web_port", _whole(1, MAX_PORT)),
    "region_id": DeclaredKey("region_id", _whole(0)),
    "group_id": DeclaredKey("group_id", _whole(0)),
    "manage_status": DeclaredKey("manage_status", _status, lambda value: value.text),
}
"""Keys of a Broker beside its address."""
TOPIC: Final[Mapping[str, DeclaredKey]] = {
    "max_message_bytes": _BYTES,
    "enable_auth_control": DeclaredKey("enable_auth_control", _same),
    "topic_name_id": DeclaredKey("topic_name_id", _whole(0)),
}
"""Keys of a topic's record."""
CONSUMPTION: Final[Mapping[str, DeclaredKey]] = {
    "consume_enable": DeclaredKey("consume_enable", _same),
    "disable_csm_rsn": DeclaredKey("disable_csm_rsn", _reason),
    "filter_enable": DeclaredKey("filter_enable", _same),
    "filter_conds": DeclaredKey("filter_conds", _filter_items, sorted),
}
GROUP: Final[Mapping[str, DeclaredKey]] = {
    "res_check_enable": DeclaredKey("res_check_enable", _same),
    "alwd_broker_client_rate": DeclaredKey("alwd_broker_client_rate", _whole(0)),
    "qry_priority_id": _PRIORITY,
    **_FLOW,
}
