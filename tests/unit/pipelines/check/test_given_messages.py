"""A test's messages as the source's columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines.check.given_messages import body, messages


def test_messages_get_what_they_do_not_say() -> None:
    batch = messages(
        [{"body": "a"}, {"body": "b", "offset": 7, "msgTime": 202601011200, "attributes": {"k": 1}}], topic="t"
    )
    first, second = batch.to_pylist()
    assert (first["topic"], first["offset"], first["body"], first["attributes"]) == ("t", 0, b"a", [])
    assert first["timestamp"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert (second["offset"], second["attributes"]) == (7, [("k", "1")])
    assert second["msgTime"] == datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "made"),
    [
        ("é", "é".encode()),
        ({"base64": "AP8="}, b"\x00\xff"),
        ({"hex": "00ff"}, b"\x00\xff"),
        ({"id": 1}, b'{"id": 1}'),
        (5, b"5"),
    ],
)
def test_a_body_is_a_text_its_bytes_or_json(value: Any, made: bytes) -> None:
    assert body(value) == made


@pytest.mark.parametrize(
    "message",
    [
        {"body": None}, {"body": {"base64": "!"}}, {"body": {"hex": "x"}}, {"body": "a", "offset": "x"},
        {"body": "a", "msgTime": "noon"}, {"body": "a", "attributes": "x"}, {"body": "a", "brokerId": 2**40},
    ],
)  # fmt: skip
def test_what_no_message_can_be_is_refused(message: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        messages([message], topic="t")
