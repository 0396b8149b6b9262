"""Every reader of a text that a peer sends: only its declared errors come out, short, at a cost that is linear."""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.flow import parse_rules
from pytubemq.core.refusal import Refused
from pytubemq.core.reset_target import parse_reset_target
from pytubemq.errors import BadRequestError, FormatError, MessageError, TubeError
from pytubemq.master.brokers.leases import read_leases
from pytubemq.master.brokers.registration.claims import BrokerIdentity
from pytubemq.model.durability import parse_durability
from pytubemq.model.ids import Address, Partition
from pytubemq.model.policy import parse_delete_policy, understood_policy
from pytubemq.net.client.masters import parse_masters
from pytubemq.testing.hostile.values import FORMS, NAMES, Scene, Values
from pytubemq.wire.batch.payload import decode_payload
from pytubemq.wire.text.attributes import check_msg_time, parse_attributes
from pytubemq.wire.text.broker_strings import parse_broker_info
from pytubemq.wire.text.client_id import check_client_id
from pytubemq.wire.text.configuration import parse_broker_default_conf, parse_broker_topic_conf, parse_topic_values
from pytubemq.wire.text.partition_strings import (
    parse_failure_info,
    parse_part_sub_info,
    parse_partition_info,
    parse_required_partition,
    parse_subscribe_info,
)
from pytubemq.wire.text.topic_strings import parse_topic_condition, parse_topic_info, parse_topic_meta_info

if TYPE_CHECKING:
    from collections.abc import Callable

Parser = tuple["Callable[[str], Any]", tuple[type[Exception], ...]]

PARSERS: dict[str, Parser] = {
    "broker": (parse_broker_info, (FormatError,)),
    "topic layout": (parse_topic_info, (FormatError,)),
    "topic meta": (parse_topic_meta_info, (FormatError,)),
    "condition": (parse_topic_condition, (FormatError,)),
    "partition": (parse_partition_info, (FormatError,)),
    "subscription": (parse_subscribe_info, (FormatError,)),
    "failure": (parse_failure_info, (FormatError,)),
    "part subscription": (parse_part_sub_info, (FormatError,)),
    "offsets": (parse_required_partition, (FormatError,)),
    "client": (check_client_id, (FormatError,)),
    "broker client": (lambda text: BrokerIdentity.parse(text, 8124), (Refused,)),
    "leases": (lambda text: asyncio.run(read_leases([text])), ()),
    "default conf": (parse_broker_default_conf, (FormatError,)),
    "topic conf": (parse_broker_topic_conf, (FormatError,)),
    "topic value": (lambda text: parse_topic_values(text.split("\n"), "a topic's durability"), (FormatError,)),
    "durability": (parse_durability, (FormatError, BadRequestError)),
    "policy": (parse_delete_policy, (BadRequestError, FormatError)),
    "policy of a Java Broker": (understood_policy, ()),
    "flow rules": (parse_rules, (FormatError,)),
    "attributes": (parse_attributes, ()),
    "payload": (lambda text: decode_payload(text.encode("utf-8", "surrogatepass"), 1), (FormatError,)),
    "message time": (check_msg_time, (MessageError,)),
    "reset": (lambda text: parse_reset_target(text, now_ms=1_700_000_000_000), (TubeError,)),
    "address": (Address.parse, (FormatError,)),
    "partition key": (Partition.parse, (FormatError,)),
    "masters": (parse_masters, (TubeError,)),
}
"""By name, with the errors that each declares."""


def outcome(name: str, text: str) -> None:
    """Read a text; an error that is not declared goes through, and so does one that repeats a long text."""
    parse, declared = PARSERS[name]
    said = ""
    try:
        parse(text)
    except declared as error:
        said = str(error)
    assert len(said) < 1_200


texts = st.text(st.sampled_from("a1:#@,=-.[]{}\"' \n\0²é\ud800/"), max_size=60) | st.text(max_size=60)


@pytest.mark.parametrize("name", sorted(PARSERS))
@given(text=texts)
def test_noise_gives_a_value_or_a_declared_error(name: str, text: str) -> None:
    outcome(name, text)


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_what_is_nearly_right_gives_a_value_or_a_declared_error(name: str) -> None:
    values = Values(Random(name), Scene(), most_bytes=8_192)
    for text in (*NAMES, *(values.text(name if name in FORMS else None) for _ in range(400))):
        outcome(name, text)


SHAPES = (",", "#", ":", "@", "=", "[", '{"a":', "1", "a", " ", "1:", "a#1:1:1,", "a=b,", "1:a:1=1,", "\n", "é")


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_the_cost_is_linear(name: str) -> None:
    for shape in SHAPES:
        small, large = (f"a#{shape * (size // len(shape))}" for size in (20_000, 160_000))
        once_s = cost_s(name, small)
        most_s = 40 * once_s + 0.02  # eight times as long; a square takes 64 times
        if cost_s(name, large) > most_s:
            assert cost_s(name, large) <= most_s, shape


def cost_s(name: str, text: str) -> float:
    """Return the processor time of the quickest of three readings."""
    times = []
    for _ in range(3):
        begun_s = time.thread_time()
        outcome(name, text)
        times.append(time.thread_time() - begun_s)
    return min(times)
