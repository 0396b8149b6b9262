"""The error for topics that do not exist."""

from __future__ import annotations

import pytest

from pytubemq.errors import Code, NotFoundError
from pytubemq.model.missing_topic import topic_missing


@pytest.mark.parametrize(
    ("topics", "known", "creatable", "message", "hint"),
    [
        (["demoo"], ["demo"], True, "topic 'demoo' does not exist",
         "did you mean demo? Else create it with  pytubemq topic create demoo"),
        (["DEMO"], ["demo"], False, "topic 'DEMO' does not exist",
         "did you mean demo? pytubemq topic list  names all topics"),
        (["x"], ["demo"], False, "topic 'x' does not exist", "pytubemq topic list  names all topics"),
        (["x"], None, True, "topic 'x' does not exist, or no Broker serves it now",
         "create it with  pytubemq topic create x"),
        (["x"], ["x", "xx"], True, "topic 'x' does not exist, or no Broker serves it now",
         "create it with  pytubemq topic create x"),
        (["ordres", "y"], ["orders"], True, "topics 'ordres', 'y' do not exist",
         "did you mean orders? Else create it with  pytubemq topic create ordres y"),
    ],
)  # fmt: skip
def test_the_error_names_the_topic_and_the_nearest_one(
    topics: list[str], known: list[str] | None, creatable: bool, message: str, hint: str
) -> None:
    error = topic_missing(*topics, known=known, creatable=creatable)
    assert isinstance(error, NotFoundError)
    assert (error.message, error.hint, error.code) == (message, hint, Code.TOPIC_NOT_DEPLOYED)


def test_the_key_that_names_the_topic_comes_first() -> None:
    error = topic_missing("x", known=[], key="source.topic", code=Code.NOT_FOUND)
    assert (error.message, error.code) == ("source.topic: topic 'x' does not exist", Code.NOT_FOUND)
