"""Whom the Master's tokens let in."""

from __future__ import annotations

import pytest

from pytubemq.broker.members.visit_tokens import NEW_TOKENS_S, VisitTokens
from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
from pytubemq.wire.protocol.messages.master import EnableBrokerFunInfo

LATE_S = NEW_TOKENS_S + 1


def visits(*, tokens: bool = True, produce: bool = False, consume: bool = False) -> VisitTokens:
    found = VisitTokens()
    asked = EnableBrokerFunInfo(
        enable_consume_authenticate=consume,
        enable_consume_authorize=False,
        enable_produce_authenticate=produce,
        enable_produce_authorize=False,
        enable_visit_token_check=tokens,
    )
    found.record_registration(asked, now_s=0.0)
    return found


def code(found: VisitTokens, token: int | None, *, now_s: float = LATE_S, name: str | None = None) -> int:
    info = None if token is None else AuthorizedInfo(visit_authorized_token=token, auth_authorized_token=name)
    try:
        found.check_producer(info, now_s=now_s)
    except Refused as refused:
        return refused.refusal.code
    return Code.SUCCESS


def test_a_refusal_tells_no_token() -> None:
    found = visits()
    found.learn("123456789")
    with pytest.raises(Refused) as caught:
        found.check_consumer(AuthorizedInfo(visit_authorized_token=987654321), now_s=LATE_S)
    assert not {"123456789", "987654321"} & set(caught.value.refusal.text.split())


def test_nothing_is_asked_unless_the_master_says_so() -> None:
    found = VisitTokens()
    assert not found.asks_producers
    assert code(found, None) == Code.SUCCESS
    found.record_registration(None, now_s=0.0)
    assert code(found, None) == Code.SUCCESS


def test_a_token_must_be_one_of_the_masters_last_six() -> None:
    found = visits()
    found.learn("1, 2,x,,-5,2")
    assert found.asks_producers
    assert [code(found, token) for token in (1, 2, -5)] == [Code.SUCCESS] * 3
    assert [code(found, token) for token in (0, None, 3)] == [Code.CERTIFICATE_FAILURE] * 3
    found.learn("3,4,5,6,7")
    assert [code(found, token) for token in (1, 2, 7)] == [Code.CERTIFICATE_FAILURE] * 2 + [Code.SUCCESS]


def test_soon_after_a_registration_and_without_the_master_every_token_passes() -> None:
    found = visits()
    assert code(found, 9, now_s=NEW_TOKENS_S) == Code.SUCCESS
    assert code(found, 9) == Code.CERTIFICATE_FAILURE
    found.in_touch = False
    assert code(found, 9) == Code.SUCCESS


@pytest.mark.parametrize(("name", "expected"), [(None, 415), (" ", 415), ("anything", 200)])
def test_whoever_must_authenticate_brings_something(name: str | None, expected: int) -> None:
    assert code(visits(tokens=False, produce=True), 0, name=name) == expected
    assert code(visits(tokens=False, consume=True), 0, name=name) == Code.SUCCESS, "that is about consumers"
