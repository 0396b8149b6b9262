"""Counts of repeated fields: what is passed, what is refused, and how much of it is looked at."""

from __future__ import annotations

import pytest
from hypothesis import given

from pytubemq.errors import EnvelopeError, FormatError
from pytubemq.model.limits import MAX_RESETS, MAX_WIRE_FOREIGN_FIELDS, MAX_WIRE_RESETS
from pytubemq.wire.protobuf.schema import I64, STR, Label, message, optional, repeated, specs
from pytubemq.wire.protocol.messages.extension import (
    OffsetReset,
    PackResult,
    PackSpan,
    ResetOffsetsRequest,
    SendPacksResponseB2P,
)
from pytubemq.wire.serialization.counts import Counts, counts_of
from pytubemq.wire.serialization.descriptors import all_classes
from pytubemq.wire.serialization.message_bytes import decode, encode
from pytubemq.wire.text.topic_strings import parse_topic_condition
from tests.unit.wire.strategies import messages

HEAD = encode(ResetOffsetsRequest(client_id="c", group_name="g", user="u"))
RESET = encode(OffsetReset(topic_name="t", partition_id=0))
ONE = b"\x22" + bytes((len(RESET),)) + RESET


def test_every_repeated_field_has_a_bound() -> None:
    fields = [(cls, name, spec) for cls in all_classes() for name, spec in specs(cls).items()]
    found = [(cls, name, spec) for cls, name, spec in fields if spec.label is Label.REPEATED]
    assert len(found) > 40
    assert [(cls.__name__, name) for cls, name, spec in found if not spec.most] == []
    for cls in all_classes():
        counts_of(cls)


def test_as_many_values_as_are_allowed_are_read_and_one_more_is_not() -> None:
    assert len(decode(ResetOffsetsRequest, HEAD + ONE * MAX_WIRE_RESETS).resets) == MAX_WIRE_RESETS
    with pytest.raises(EnvelopeError, match=f"not a ResetOffsetsRequest: it has more than {2 * MAX_RESETS} resets"):
        decode(ResetOffsetsRequest, HEAD + ONE * (MAX_WIRE_RESETS + 1))


@pytest.mark.parametrize("tag", [b"\xa2\x00", b"\xa2\x80\x00", b"\xa2\x80\x80\x00"])
def test_a_tag_that_is_written_longer_than_needed_counts_as_well(tag: bytes) -> None:
    with pytest.raises(EnvelopeError, match="more than"):
        decode(ResetOffsetsRequest, HEAD + (tag + ONE[1:]) * (MAX_WIRE_RESETS + 1))


def test_bytes_that_only_look_like_tags_do_not_count() -> None:
    text = '"' * (4 * MAX_WIRE_RESETS)
    whole = ResetOffsetsRequest(
        client_id="c", group_name=text, user="u", resets=(OffsetReset(topic_name="t", partition_id=0),) * 3
    )
    assert decode(ResetOffsetsRequest, encode(whole)) == whole


def test_the_values_of_all_parts_count_together() -> None:
    @message
    class Part:
        names: tuple[str, ...] = repeated(2, STR, most=10, default=())

    @message
    class Whole:
        part: Part | None = optional(1, Part, default=None)
        parts: tuple[Part, ...] = repeated(3, Part, most=10, default=())

    counts = Counts(Whole)
    counts.check((b"\x0a\x04" + b"\x12\x00" * 2) * 5 + (b"\x1a\x04" + b"\x12\x00" * 2) * 5)
    with pytest.raises(FormatError, match=r"more than 10 part\.names"):
        counts.check((b"\x0a\x04" + b"\x12\x00" * 2) * 6)
    with pytest.raises(FormatError, match=r"more than 10 parts\.names"):
        counts.check((b"\x1a\x04" + b"\x12\x00" * 2) * 6)
    with pytest.raises(FormatError, match="more than 10 parts"):
        counts.check(b"\x1a\x00" * 11)


def test_packed_numbers_count_each() -> None:
    @message
    class Numbers:
        values: tuple[int, ...] = repeated(1, I64, most=10, default=())

    counts = Counts(Numbers)
    counts.check(b"\x0a\x14" + b"\x80\x01" * 10)
    for too_many in (b"\x0a\x0b" + b"\x01" * 11, b"\x08\x01" * 11, (b"\x0a\x03" + b"\x01" * 3) * 4):
        with pytest.raises(FormatError, match="more than 10 values"):
            counts.check(too_many)


@pytest.mark.parametrize("field", [b"\x78\x01", b"\x7a\x00", b"\x7d1234", b"\x7912345678", b"\x7b\x7c", b"\x0a\x00"])
def test_a_count_ends_at_a_field_that_is_one_too_many_of_any_kind(field: bytes) -> None:
    """The looking itself is bounded: a frame of nothing else is not walked through to its end."""
    many = MAX_WIRE_RESETS + MAX_WIRE_FOREIGN_FIELDS
    counts = counts_of(ResetOffsetsRequest)
    suspicious = b"\x7a\x82\x80\x02" + b'"' * 32_770  # so that it is looked at
    counts.check(suspicious + field * 100)
    with pytest.raises(FormatError, match="too many fields"):
        counts.check(suspicious + field * (many + 1))


@pytest.mark.parametrize("broken", [b"\x22", b"\x22\x05", b"\x7c", b"\x7b", b"\x7b" * 200, b"\x80" * 11, b"\x7e"])
def test_what_is_cut_or_malformed_is_refused(broken: bytes) -> None:
    body = HEAD + b"\x7a\x82\x80\x02" + b'"' * 32_770 + broken
    with pytest.raises(EnvelopeError, match=r"not a ResetOffsetsRequest|missing required"):
        decode(ResetOffsetsRequest, body)


@given(messages(SendPacksResponseB2P))
def test_whatever_is_written_is_passed(whole: SendPacksResponseB2P) -> None:
    Counts(SendPacksResponseB2P).check(encode(whole))


def test_long_answers_are_passed() -> None:
    span = PackSpan(count=1, err_code=200, first_offset=1 << 40, first_message_id=1 << 60, err_msg='"*"' * 20)
    packs = SendPacksResponseB2P(
        success=True, err_code=200, err_msg="OK!", results=(PackResult(spans=(span, span)),) * 4_000
    )
    assert decode(SendPacksResponseB2P, encode(packs)) == packs


def test_only_the_first_incomplete_part_is_named() -> None:
    body = HEAD + ONE + b"\x22\x02\x10\x00" + b"\x22\x00" * 1_000
    with pytest.raises(EnvelopeError) as error:
        decode(ResetOffsetsRequest, body)
    assert error.value.text.endswith("Message missing required fields: resets[1].topicName")


def test_a_filter_with_millions_of_items_is_refused_before_it_is_divided() -> None:
    with pytest.raises(FormatError, match="has 1000001 items"):
        parse_topic_condition("demo#" + "a," * 1_000_000)
