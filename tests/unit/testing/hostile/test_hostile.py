"""The generator of hostile messages: from a seed, of every field of every message, and bad."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import EnvelopeError, FormatError
from pytubemq.model.ids import Address
from pytubemq.testing.hostile import http_client
from pytubemq.testing.hostile.clients import make_case
from pytubemq.testing.hostile.corruption import corrupt
from pytubemq.testing.hostile.forms import FORM_OF
from pytubemq.testing.hostile.http_cases import Call, broker_calls, make_http_case, master_calls
from pytubemq.testing.hostile.packs import bad_columns, bad_stored, sound_columns
from pytubemq.testing.hostile.requests import NUMBER_OF, bulk, sound
from pytubemq.testing.hostile.values import FORMS, Scene, Values
from pytubemq.wire.batch import record_batch
from pytubemq.wire.protobuf.schema import specs
from pytubemq.wire.rpc.methods import METHODS
from pytubemq.wire.serialization.descriptors import all_classes
from pytubemq.wire.serialization.message_bytes import decode, encode
from tests.unit.wire.strategies import fault

if TYPE_CHECKING:
    from collections.abc import Callable

CLASSES = all_classes()
SPECS = list(METHODS.values())


def values(seed: object = 1) -> Values:
    return Values(Random(f"{seed}"), Scene())


def test_a_case_is_what_its_seed_and_number_say() -> None:
    some = [make_case(number, 7, SPECS, Scene()) for number in range(200)]
    assert some == [make_case(number, 7, SPECS, Scene()) for number in range(200)]
    assert some != [make_case(number, 8, SPECS, Scene()) for number in range(200)]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_field_of_every_message_is_corrupted(cls: type) -> None:
    bad = values(cls.__name__)
    fields = set(specs(cls))
    for _ in range(25 * len(fields)):
        fields -= set(corrupt(cls, encode(sound(cls, bad)), bad, times=1).how.replace("=", " ").split())
    assert not fields, "no corruption names these"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_sound_message_is_read_and_a_corrupted_one_is_read_or_refused(cls: type) -> None:
    made, refused = values(cls.__name__), 0
    for _ in range(20):
        message = sound(cls, made)
        assert decode(cls, encode(message)) == message
        bad = corrupt(cls, encode(message), made).body
        refused += fault(lambda bad=bad: decode(cls, bad), EnvelopeError) is not None  # type: ignore[misc]
    assert refused


@pytest.mark.slow
def test_many_values_stay_within_what_a_message_may_have() -> None:
    for spec in SPECS:
        for seed in range(4):
            message, how = bulk(spec.request, values(seed), most_bytes=1 << 20)
            assert decode(spec.request, encode(message)) == message, how


def test_hints_name_fields_and_forms_that_there_are() -> None:
    names = {name for cls in CLASSES for name in specs(cls)}
    assert names.issuperset(FORM_OF)
    assert names.issuperset(NUMBER_OF)
    assert set(FORMS).issuperset(FORM_OF.values())


@pytest.mark.parametrize("make", [bad_columns, sound_columns])
def test_checks_of_packs_pass_and_their_contents_are_looked_at(make: Callable[[Values], bytes]) -> None:
    made, faults = values(), []
    for _ in range(200):
        found = fault(lambda: record_batch.read_columns(make(made)), FormatError)
        faults.append(None if found is None else found.message)
    assert None in faults
    assert record_batch.DAMAGED not in faults, "its check is the right one"
    assert (len(set(faults)) > 1) is (make is bad_columns)


def test_stored_packs_have_heads_that_pass_their_check() -> None:
    made = values()
    faults = [fault(lambda: record_batch.read_record_batch_head(bad_stored(made)), FormatError) for _ in range(200)]
    told = {found.message for found in faults if found is not None}
    assert told == {"the head of a stored record batch has numbers out of range"}


@pytest.mark.slow
@pytest.mark.parametrize("calls", [master_calls(), broker_calls()], ids=["master", "broker"])
def test_http_requests_are_the_same_for_a_seed_and_make_every_call_with_each_of_its_names(
    calls: tuple[Call, ...],
) -> None:
    cases = [make_http_case(number, 5, calls, Scene()) for number in range(3_000)]
    assert cases[:300] == [make_http_case(number, 5, calls, Scene()) for number in range(300)]
    assert cases[0] != make_http_case(0, 6, calls, Scene())
    sent = b"".join(piece for case in cases for piece in case.pieces)
    for call in calls:
        assert all(f"{name}={value}".encode() in sent for name, value in call.fixed), call
        assert all(name.encode() in sent for name in (*call.in_query, *call.in_json)), call


@pytest.mark.anyio
async def test_a_server_that_neither_answers_nor_closes_is_not_sent_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "ANSWER_WAIT_S", 0.05)
    held = []

    def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    hostile = http_client.HostileHttpClient(Address(host, port), 5, (Call("GET", "/"),), Scene())
    await hostile.run(10_000)
    assert "neither an answer nor an end within 0.05 s" in hostile.problems[0]
    assert hostile.cases < 1_000
    server.close()
    for writer in held:
        writer.transport.abort()
