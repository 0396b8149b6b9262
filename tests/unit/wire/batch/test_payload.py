"""Payload, attributes and checksum: the worked examples, the tolerances, and that what goes in comes out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import FormatError, MessageError
from pytubemq.model.filters import filter_code
from pytubemq.wire.batch.checksum import check_sum
from pytubemq.wire.batch.payload import attributes_fit, decode_payload, encode_payload
from pytubemq.wire.text.attributes import check_msg_time, format_attributes, parse_attributes
from tests.unit.wire.strategies import fault

WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=",=$"), min_size=1, max_size=10).filter(
    str.strip
)
TIMES = st.datetimes().map(lambda moment: f"{moment.year:04}{moment:%m%d%H%M}")


def test_the_worked_payload() -> None:
    payload, flag = encode_payload(b"hello", None, msg_type="abc", msg_time="202401011200")
    assert payload == bytes.fromhex("00000024") + b"$msgType$=abc,$msgTime$=202401011200" + b"hello"
    assert flag == 1
    assert check_sum(payload) == 1820757583
    assert decode_payload(payload, flag) == (b"hello", "$msgType$=abc,$msgTime$=202401011200")


def test_the_worked_checksums_and_codes() -> None:
    assert check_sum(b"123456789") == 1274296614
    assert (filter_code("abc"), filter_code("alarm"), filter_code(" abc ")) == (96354, 92895825, 96354)


@given(st.binary(max_size=200))
def test_a_checksum_is_a_non_negative_int32(data: bytes) -> None:
    assert 0 <= check_sum(data) < 2**31


@given(
    st.binary(min_size=1),
    st.dictionaries(WORD, WORD, max_size=4),
    st.none() | WORD.map(str.strip),
    st.none() | TIMES,
)
def test_what_goes_in_comes_out(
    body: bytes, attributes: dict[str, str], msg_type: str | None, msg_time: str | None
) -> None:
    payload, flag = encode_payload(body, attributes, msg_type=msg_type, msg_time=msg_time)
    read, text = decode_payload(payload, flag)
    assert read == body
    assert flag == (1 if text is not None else 0)
    assert parse_attributes(text or "") == (attributes, msg_type, msg_time)


def test_a_body_alone_is_the_payload_itself() -> None:
    body = b"x" * 100
    payload, flag = encode_payload(body, {}, msg_type=None, msg_time=None)
    assert payload is body
    assert flag == 0
    assert encode_payload(body, None, msg_type=" ", msg_time="") == (body, 0)


def test_an_empty_body() -> None:
    with pytest.raises(MessageError) as caught:
        encode_payload(b"", None, msg_type=None, msg_time=None)
    assert caught.value.code == 442


@pytest.mark.parametrize(
    ("attributes", "msg_type", "says"),
    [
        ({"": "v"}, None, "attribute key cannot be sent: ''"),
        ({" ": "v"}, None, "attribute key cannot be sent: ' '"),
        ({"k": ""}, None, "value of attribute 'k' cannot be sent: ''"),
        ({"a,b": "v"}, None, "attribute key cannot be sent: 'a,b'"),
        ({"k": "a=b"}, None, "value of attribute 'k' cannot be sent: 'a=b'"),
        ({"$msgType$": "v"}, None, r"attribute key cannot be sent: '\$msgType\$'"),
        ({"k": "x$msgTime$"}, None, "value of attribute"),
        (None, "a,b", "message type cannot be sent: 'a,b'"),
    ],
)
def test_attributes_that_peers_would_read_otherwise(
    attributes: dict[str, str], msg_type: str | None, says: str
) -> None:
    with pytest.raises(MessageError, match=says) as caught:
        format_attributes(attributes, msg_type=msg_type, msg_time=None)
    assert caught.value.hint


def test_an_attribute_that_is_not_text() -> None:
    with pytest.raises(MessageError, match="cannot be written as UTF-8"):
        encode_payload(b"x", {"k": "\ud800"}, msg_type=None, msg_time=None)


@pytest.mark.parametrize(
    "text", ["", "2024", "20240101120", "2024010112000", "202413011200", "202402301200", "20240101 1 0"]
)
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(MessageError, match="not a message time"):
        check_msg_time(text)
    assert check_msg_time("202402291200") == "202402291200"


def test_attributes_of_sloppy_peers() -> None:
    # C++ sorts, so time comes before type and after what sorts lower
    assert parse_attributes("$msgTime$=202401011200,$msgType$=abc,k=v") == ({"k": "v"}, "abc", "202401011200")
    assert parse_attributes("a=1,,b,c=,=d,e=f=g") == ({"a": "1", "c": "", "e": "f=g"}, None, None)
    assert parse_attributes("") == ({}, None, None)
    assert parse_attributes("no attribute at all") == ({}, None, None)
    assert parse_attributes("$msgType$=") == ({}, None, None)


def test_attribute_blocks_of_sloppy_peers() -> None:
    assert decode_payload(b"\0\0\0\0body", 1) == (b"body", None)
    assert decode_payload(b"\xff\xff\xff\xffbody", 1) == (b"body", None)  # the original counts a negative length as 0
    assert decode_payload(b"body", 2) == (b"body", None)


@pytest.mark.parametrize(
    ("payload", "says"),
    [(b"", "0 bytes"), (b"abc", "3 bytes"), (b"\0\0\0\x05abcd", "5 bytes are claimed"), (b"\0\0\0\x01\xff", "UTF-8")],
)
def test_broken_payloads(payload: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        decode_payload(payload, 1)


@given(st.binary(max_size=30), st.integers(-(2**31), 2**31 - 1))
def test_noise_gives_a_payload_or_format_error(payload: bytes, flag: int) -> None:
    error = fault(lambda: decode_payload(payload, flag), FormatError)
    assert error is None or error.message


@given(st.text(max_size=60))
def test_any_text_parses(text: str) -> None:
    attributes, _, _ = parse_attributes(text)
    assert all(isinstance(value, str) for value in attributes.values())


@given(st.one_of(st.just(b""), st.integers(-3, 12).map(lambda size: size.to_bytes(4, "big", signed=True))), st.binary())
def test_fits_says_whether_the_attributes_can_be_taken_off(size: bytes, rest: bytes) -> None:
    payload = size + rest
    try:
        decode_payload(payload, 1)
        fits = True
    except FormatError as error:
        fits = "UTF-8" in str(error)  # the length fits; the text is the reader's to judge
    assert attributes_fit(payload) is fits


@pytest.mark.parametrize(
    ("payload", "fits"), [(b"", False), (b"\0\0\0", False), (b"\0\0\0\1", False), (b"\0\0\0\0", True)]
)
def test_the_smallest_payloads_with_attributes(payload: bytes, fits: bool) -> None:
    assert attributes_fit(payload) is fits
