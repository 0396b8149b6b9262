"""Broker ids as Brokers say them in heartbeats."""

from __future__ import annotations

import pytest

from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.master.brokers.registration.claims import parse_broker_id


def test_a_number_is_an_id() -> None:
    assert parse_broker_id(" 2147483647 ") == 2**31 - 1


@pytest.mark.parametrize("text", ["", "-1", "1.0", "\u00b2", "x", "9" * 11, "1" * 20_000, "1\n\x1b[2J"])
def test_what_is_none_is_refused_in_a_short_text(text: str) -> None:
    with pytest.raises(Refused) as caught:
        parse_broker_id(text)
    assert caught.value.refusal.code == Code.BAD_REQUEST
    assert len(caught.value.refusal.text) < 300
    assert caught.value.refusal.text.isprintable()
