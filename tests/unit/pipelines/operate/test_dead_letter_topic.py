"""Messages that anybody put among the dead letters of a topic."""

from __future__ import annotations

import json

import pytest

from pytubemq.errors import CorruptError
from pytubemq.model.ids import Partition
from pytubemq.model.message import Message
from pytubemq.pipelines.operate.dead_letter_topic import letter_of


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[" * 200_000,
        b"5",
        b"{}",
        json.dumps({"reason": "r", "offset": 2**70}).encode(),
        json.dumps({"reason": "r", "timestamp": 5}).encode(),
        json.dumps({"reason": "r", "attributes": "x"}).encode(),
        json.dumps({"reason": "r", "raw": "%%%"}).encode(),
        json.dumps({"reason": "r", "topic": "\ud800"}).encode(),
    ],
)
def test_what_is_no_dead_letter_is_reported_with_its_place(body: bytes) -> None:
    with pytest.raises(CorruptError, match="a message of 1:dead:0 at offset 28 is not a dead letter"):
        letter_of(Message(Partition(1, "dead", 0), body, offset=28))
