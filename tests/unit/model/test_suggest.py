"""The name that is suggested for one that does not exist."""

from __future__ import annotations

import pytest

from pytubemq.model.suggest import suggest


@pytest.mark.parametrize(
    ("name", "known", "suggested"),
    [
        ("linger", ["linger_s", "batching"], "linger_s"),
        ("GROUPID", ["groupId", "streamId"], "groupId"),
        ("demo", [], None),
        ("demo", ["orders", "payments"], None),
    ],
)
def test_the_most_similar_name_is_suggested_as_it_is_written(
    name: str, known: list[str], suggested: str | None
) -> None:
    assert suggest(name, known) == suggested


def test_how_alike_the_names_must_be_can_be_said() -> None:
    assert suggest("brokers", ["broker_port"], likeness=0.5) == "broker_port"
    assert suggest("brokers", ["broker_port"], likeness=0.8) is None
