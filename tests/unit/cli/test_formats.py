"""What is printed of a message, and what is read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.cli.formats import parse_json_line, renderer, to_dict
from pytubemq.errors import ConfigError, MessageError
from pytubemq.model.ids import Partition
from pytubemq.model.message import Message

MESSAGE = Message(
    Partition(1, "t", 2), b'a"b', {"k": "v"}, offset=28, appended_at_ms=1_769_860_800_123, message_id=9, msg_type="m"
)


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("%v\\n", b'a"b\n'),
        ("%t/%b/%p/%o", b"t/1/2/28"),
        ("%T", b"2026-01-31T12:00:00.123Z"),
        ("%a{k}%a{none}|%a", b'v|{"k": "v"}'),
        ("%v{json} %v{hex} %v{base64}", b'"a\\"b" 612262 YSJi'),
        ("%m%M%%\\t\\0\\\\", b"m%\t\0\\"),
        ("plain ü", "plain ü".encode()),
        ("raw", b'a"b'),
    ],
)
def test_fields(form: str, printed: bytes) -> None:
    assert renderer(form)(MESSAGE) == printed


@pytest.mark.parametrize("form", ["%q", "%v{xml}", "%t{x}", "\\q"])
def test_an_unknown_field_is_named(form: str) -> None:
    with pytest.raises(ConfigError) as caught:
        renderer(form)
    assert form in caught.value.message
    assert "%v body" in str(caught.value.hint)


@given(
    body=st.binary(min_size=1),
    attributes=st.dictionaries(st.text(), st.text(), max_size=3),
    msg_type=st.none() | st.text(min_size=1),
)
def test_json_reads_back_as_it_was(body: bytes, attributes: dict[str, str], msg_type: str | None) -> None:
    message = Message(Partition(1, "t", 0), body, attributes, msg_type=msg_type)
    line = renderer("json")(message)
    assert line.count(b"\n") == 1
    found = parse_json_line(line, number=1)
    assert (found.body, found.attributes, found.msg_type) == (body, attributes, msg_type)


@given(body=st.binary())
def test_json_is_json(body: bytes) -> None:
    message = Message(Partition(1, "t", 0), body)
    assert json.loads(renderer("json")(message)) == to_dict(message)


@pytest.mark.parametrize("line", [b"{", b"[]", b"{}", b'{"body": 1}', b'{"body_base64": "?"}', b"\xff", b'"x"'])
def test_a_line_that_is_no_message_is_named(line: bytes) -> None:
    with pytest.raises(MessageError, match="line 7 is not a message"):
        parse_json_line(line, number=7)
