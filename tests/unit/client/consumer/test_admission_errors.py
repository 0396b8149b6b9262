"""Hints of refused consumers: what this side can do, and nothing where the Master has named the remedy."""

from __future__ import annotations

import pytest

from pytubemq.client.consumer.admission_errors import add_hint
from pytubemq.errors import Code, NotAllowedError, refused

LACKING = (
    "user billing lacks the permission consume on group other; an administrator grants it with `pytubemq permission "
    "grant billing consume group other`"
)


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("the group other is not among those of topic orders", "ask an administrator to name the group for the topic"),
        (LACKING, None),
    ],
)
def test_a_refused_group_has_one_remedy(message: str, hint: str | None) -> None:
    error = refused(Code.CONSUME_GROUP_FORBIDDEN, message)
    assert isinstance(error, NotAllowedError)
    found = add_hint(error)
    assert (found.code, found.message) == (Code.CONSUME_GROUP_FORBIDDEN, message)
    assert (found.hint or "").partition(":")[0] == (hint or "")
