"""Leases of readers in a Broker's reports."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytubemq.broker.members.consumer_registry import ConsumerRegistry
from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.broker.topics import MasterConfig
from pytubemq.broker.upkeep import reports
from pytubemq.broker.upkeep.reports import Condition, reported_leases
from pytubemq.model.ids import Address, BrokerInfo
from pytubemq.model.limits import MAX_REGISTRATION_BYTES
from pytubemq.wire.rpc.methods import METHODS, Method
from pytubemq.wire.serialization.message_bytes import encode

if TYPE_CHECKING:
    import pytest

BROKER = BrokerInfo(1, Address("127.0.0.9", 8123))
NO_CURSOR: Any = None
ROOM = 1_000


def registry(*partitions: int) -> ConsumerRegistry:
    made = ConsumerRegistry(lease_timeout_s=30)
    for number in partitions:
        made.put(RegistrationKey("g", "demo", number), "c", NO_CURSOR, codes=None, connection=None, now_s=100)
    return made


def test_who_reads_is_told_as_a_subscription() -> None:
    held = registry(0).registrations()
    assert reported_leases(held, BROKER, now_s=129, room_bytes=ROOM) == ("c@g#1:127.0.0.9:8123#demo:0",)
    assert reported_leases(held, BROKER, now_s=130, room_bytes=ROOM) == (), "it has run out"


def test_no_more_are_told_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MAX_REPORTED_LEASES", 2)
    assert len(reported_leases(registry(0, 1, 2).registrations(), BROKER, now_s=100, room_bytes=ROOM)) == 2


def test_long_names_leave_room_for_the_rest_of_a_registration() -> None:
    made = ConsumerRegistry(lease_timeout_s=30)
    for number in range(4000):
        made.put(
            RegistrationKey("ü" * 1024, "demo", number), "ü" * 1024, NO_CURSOR, codes=None, connection=None, now_s=100
        )
    config = MasterConfig(
        default_conf="3:true:true:1000:10000: :delete,168h:1:0:3:10:20000",
        topic_confs=tuple(f"{'t' * 50}{number}:3: : : : : : : :0: : : : : " for number in range(20_000)),
    )
    request = reports.registration("1:127.0.0.9:8123:1", config, Condition(), tls_port=8124)
    room = MAX_REGISTRATION_BYTES - len(encode(request))
    told = reported_leases(made.registrations(), BROKER, now_s=100, room_bytes=room)
    assert 0 < len(told) < 4000
    whole = len(encode(replace(request, leases=told)))
    assert MAX_REGISTRATION_BYTES - 20_000 < whole <= MAX_REGISTRATION_BYTES
    assert METHODS[Method.BROKER_REGISTER_B2M].request_bytes > MAX_REGISTRATION_BYTES
    assert reported_leases(made.registrations(), BROKER, now_s=100, room_bytes=-1) == ()
