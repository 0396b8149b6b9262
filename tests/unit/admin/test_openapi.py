"""The description of the API: what it says of values is what the Master's checks say."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pytubemq.admin.openapi import describe
from pytubemq.errors import TubeError
from pytubemq.master.registry import users
from pytubemq.master.registry.topic_change import topic_change
from pytubemq.model.limits import MAX_MESSAGE_BYTES, MAX_PARTITIONS_PER_TOPIC
from pytubemq.model.names import check_topic
from pytubemq.security.permissions import Operation, ResourceKind

SCHEMAS: dict[str, Any] = describe("1")["components"]["schemas"]
CHARS = [chr(code) for code in (*range(0x180), 0x200B, 0x2028, 0xD800, 0xFFFF, 0x1F600)]
NAMES = ["", *CHARS, *(f"a{char}b" for char in CHARS), *(f"a{char}" for char in CHARS)]
NAMES += ["a" * count for count in (63, 64, 65)]


def is_accepted(check: Any, *given: Any, **named: Any) -> bool:
    try:
        check(*given, **named)
    except TubeError:
        return False
    return True


def is_described(schema: dict[str, Any], name: str) -> bool:
    # in the dialect of schemas `$` is the end alone, in Python also before a last line feed
    pattern = schema["pattern"].removesuffix("$") + r"\Z"
    return re.search(pattern, name) is not None and len(name) <= schema.get("maxLength", len(name))


def test_the_name_of_a_topic_is_described_as_it_is_checked() -> None:
    schema = SCHEMAS["NewTopic"]["properties"]["name"]
    described = [name for name in NAMES if is_described(schema, name)]
    assert described == [name for name in NAMES if is_accepted(check_topic, name)]
    assert 50 < len(described) < len(NAMES) / 2


def test_the_name_of_a_user_is_described_but_for_what_cannot_be_printed() -> None:
    schema = SCHEMAS["NewUser"]["properties"]["name"]
    wrong = {name for name in NAMES if is_described(schema, name) != is_accepted(users._check_name, name)}
    assert not [name for name in wrong if name.isprintable()]
    assert not [name for name in wrong if is_accepted(users._check_name, name)]


@pytest.mark.parametrize("kind", ["NewTopic", "ChangedTopic"])
def test_the_settings_of_a_topic_are_described_as_they_are_checked(kind: str) -> None:
    settings = SCHEMAS[kind]["properties"]
    for name, most in (("partitions", MAX_PARTITIONS_PER_TOPIC), ("max_message_bytes", MAX_MESSAGE_BYTES)):
        least, greatest = settings[name]["minimum"], settings[name]["maximum"]
        assert (least, greatest) == (1, most)
        accepted = [number for number in (0, 1, most, most + 1) if is_accepted(topic_change, **{name: number})]
        assert accepted == [least, greatest]
    assert all(is_accepted(topic_change, durability=one) for one in settings["durability"]["enum"])
    assert not is_accepted(topic_change, durability="paper")


def test_permissions_are_described_by_their_words() -> None:
    words = SCHEMAS["NewPermission"]["properties"]
    assert words["operation"]["enum"] == [str(one) for one in Operation]
    assert words["kind"]["enum"] == [str(one) for one in ResourceKind]
