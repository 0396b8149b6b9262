"""Durability and retention on the command line: what is asked of the JSON API."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ExitCode

from .conftest import Ran

if TYPE_CHECKING:
    from .fake_api import FakeApi

Tube = Callable[..., Ran]


def test_a_topic_is_created_with_both(tube: Tube, api: FakeApi) -> None:
    found = tube("topic", "create", "a", "--durability", "memory", "--retention", "72h, 10gb", "--http", api.url)
    assert found.code == ExitCode.DONE
    assert api.asked == [
        ("POST", "/api/v1/topics", {"name": "a", "partitions": 4, "durability": "memory", "retention": "72h,10GB"})
    ]


def test_only_what_is_said_is_altered(tube: Tube, api: FakeApi) -> None:
    found = tube("topic", "alter", "a", "--retention", "forever", "-p", "8", "--http", api.url)
    assert (found.code, found.out) == (ExitCode.DONE, "")
    assert "altered a: retention forever, partitions 8" in found.err
    assert tube("topic", "alter", "a", "--durability", "default", "-o", "name", "--http", api.url).out == "flights\n"
    assert tube("cluster", "alter", "--retention", "default", "--http", api.url).code == ExitCode.DONE
    assert api.asked == [
        ("PATCH", "/api/v1/topics/a", {"partitions": 8, "retention": "forever"}),
        ("PATCH", "/api/v1/topics/a", {"durability": "default"}),
        ("PATCH", "/api/v1/cluster/defaults", {"retention": "default"}),
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("topic", "alter", "a"), "say what to change"),
        (("cluster", "alter"), "say what to change"),
        (("topic", "alter", "a", "--retention", "soon"), "not a retention: 'soon'"),
        (("topic", "create", "a", "--retention", "0h"), "not a retention: '0h'"),
        (("topic", "create", "a", "--durability", "tape"), "'tape' is not one of"),
        (("topic", "create", "a", "--max-message-size", "100MB"), "'100MB' is not from 1 to 20971520 bytes (20MB)"),
        (("topic", "alter", "a", "--max-message-size", "0"), "'0' is not from 1 to 20971520 bytes (20MB)"),
        (("cluster", "alter", "--max-message-size", "1.5MB"), "'1.5MB' is not a number of bytes; write one as 1500000"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anybody_is_asked(
    tube: Tube, api: FakeApi, arguments: tuple[str, ...], says: str
) -> None:
    found = tube(*arguments, "--http", api.url)
    assert (found.code, api.asked) == (ExitCode.USAGE, [])
    assert says in found.err


def test_the_longest_message_may_be_given_in_units(tube: Tube, api: FakeApi) -> None:
    for text in ("100KB", "2 mb", "1500000", "7b"):
        assert tube("topic", "alter", "a", "--max-message-size", text, "--http", api.url).code == ExitCode.DONE
    assert [body["max_message_bytes"] for _, _, body in api.asked] == [102_400, 2_097_152, 1_500_000, 7]
