"""Responses to sends, as older Brokers give them."""

from __future__ import annotations

import pytest

from pytubemq.client.producer.send_results import _old_style_id


@pytest.mark.parametrize(
    ("text", "message_id"),
    [("123", 123), ("9" * 19, 10**19 - 1), ("9" * 20, 0), ("1" * 20_000, 0), ("\u00b2", 0), ("", 0)],
)
def test_a_message_id_in_the_text_is_a_number_of_64_bits_or_none(text: str, message_id: int) -> None:
    assert _old_style_id(text) == message_id
