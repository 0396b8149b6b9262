"""What is printed of a message, and what is read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.cli.output.formats import Outgoing, parse_json_line, renderer, to_dict
from pytubemq.errors import ConfigError, MessageError
from pytubemq.model.ids import Partition
from pytubemq.model.message import Message
from pytubemq.storage.tools.export import Exported

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
        ("%%{k}%", b"%{k}%"),
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


@pytest.mark.parametrize("form", ["%a{", "%a{k %v", "%v{json\\n", "%p{"])
def test_a_brace_that_is_not_closed_is_refused(form: str) -> None:
    with pytest.raises(ConfigError, match=rf"^-f: {form[:3]} has no closing brace"):
        renderer(form)


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


@pytest.mark.parametrize("msg_type", [None, "m"])
@pytest.mark.parametrize("body", [b"a", b"\xff"])
def test_what_store_export_writes_is_read(msg_type: str | None, body: bytes) -> None:
    exported = Exported("t", 2, 28, 1_769_860_800_123, 9, msg_type, "202601311200", {"k": "v"}, body)
    found = parse_json_line(json.dumps(exported.as_json()).encode(), number=1)
    assert found == Outgoing(body, {"k": "v"}, msg_type, "202601311200", None)


@given(body=st.binary())
def test_json_is_json(body: bytes) -> None:
    message = Message(Partition(1, "t", 0), body)
    assert json.loads(renderer("json")(message)) == to_dict(message)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "is not JSON: .* at character 2"),
        (b"[]", "is an array, a message is an object"),
        (b'"x"', "is text, a message is an object"),
        (b"\xff", "is not UTF-8"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"{}", "has no body; it has nothing"),
        (b'{"bdy": "x"}', r"has no body; it has bdy, did you mean body\?"),
        (b'{"body": "x", "atributes": {}}', r"unknown field: atributes, did you mean attributes\?"),
        (b'{"body": "x", "bdy": 1, "k": 2}', r"has unknown fields: bdy, k, did you mean body\?"),
        (b'{"body": "x", "type": "a", "msg_type": "a"}', "has both type and msg_type"),
        (b'{"body": 1}', "has a number as body, which must be text"),
        (b'{"body": null}', "has null as body, which must be text"),
        (b'{"body": "\\ud800"}', "has half a character in body"),
        (b'{"body_base64": "?"}', "that is not base64"),
        (b'{"body": "x", "body_base64": "eA=="}', "has both"),
        (b'{"body": "x", "attributes": {"k": 1}}', "has a number as attribute 'k', which must be text"),
        (b'{"body": "x", "attributes": ["k"]}', "has as attributes an array"),
        (b'{"body": "x", "key": true}', "has true or false as key"),
    ],
)
def test_a_line_that_is_no_message_is_named(line: bytes, said: str) -> None:
    with pytest.raises(MessageError, match=f"^data, line 7 .*{said}") as caught:
        parse_json_line(line, number=7, source="data, ")
    assert "Error" not in caught.value.message
