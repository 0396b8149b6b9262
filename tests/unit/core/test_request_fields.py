"""The names in a request: what is taken, and the sentence for each fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.core.refusal import Refused
from pytubemq.core.request_fields import check_client_id, check_group_name, check_host_name, check_topic_name
from pytubemq.errors import Code
from pytubemq.model.limits import MAX_CLIENT_ID_CHARS, MAX_GROUP_CHARS, MAX_HOST_CHARS, MAX_TOPIC_CHARS

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKS: list[tuple[Callable[[str], str], str, int]] = [
    (check_client_id, "clientId", MAX_CLIENT_ID_CHARS),
    (check_group_name, "groupName", MAX_GROUP_CHARS),
    (check_host_name, "hostName", MAX_HOST_CHARS),
    (check_topic_name, "topicName", MAX_TOPIC_CHARS),
]


@pytest.mark.parametrize(("check", "field", "most_chars"), CHECKS)
def test_a_name_is_trimmed_and_each_fault_has_one_sentence(
    check: Callable[[str], str], field: str, most_chars: int
) -> None:
    assert check("  a-1 ") == "a-1"
    assert check("x" * most_chars) == "x" * most_chars
    assert fault(check, "  ") == f"{field} is missing"
    assert fault(check, "x" * (most_chars + 1)) == f"{field} has {most_chars + 1} characters, {most_chars} are allowed"
    assert fault(check, "a\nb").startswith(field)


@pytest.mark.parametrize(("check", "field"), [(check_client_id, "clientId"), (check_group_name, "groupName")])
@pytest.mark.parametrize("name", ["a@b", "a#b"])
def test_only_a_name_that_goes_into_divided_strings_may_not_have_the_divider(
    check: Callable[..., str], field: str, name: str
) -> None:
    assert check(name) == name
    assert fault(lambda text: check(text, in_lists=True), name).startswith(f"{field} ")
    assert "has @ or # in it" in fault(lambda text: check(text, in_lists=True), name)


def fault(check: Callable[[str], str], value: str) -> str:
    with pytest.raises(Refused) as raised:
        check(value)
    assert raised.value.refusal.code is Code.BAD_REQUEST
    return raised.value.refusal.text
