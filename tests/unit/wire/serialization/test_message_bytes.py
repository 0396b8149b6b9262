"""Every message survives the way over the wire, and a peer without extensions still reads ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given, settings
from hypothesis import strategies as st

from pytubemq.errors import EnvelopeError
from pytubemq.wire.protobuf.schema import Label, Status, proto_name, specs
from pytubemq.wire.protocol.messages import extension
from pytubemq.wire.protocol.messages.broker import SendMessageRequestP2B, SendMessageResponseB2P, TransferedMessage
from pytubemq.wire.protocol.messages.extension import ResetOffsetsResponse, ResetResult
from pytubemq.wire.protocol.messages.master import CloseRequestP2M, HeartRequestP2M
from pytubemq.wire.protocol.messages.rpc import ResponseHeader
from pytubemq.wire.serialization.descriptors import FILES, all_classes, build, file_descriptor, message_classes
from pytubemq.wire.serialization.message_bytes import decode, decode_apart, encode, encode_values
from tests.support.properties import examples
from tests.unit.wire.strategies import fault, messages

CLASSES = all_classes()
ORIGINALS = [cls for cls in CLASSES if cls.__module__ != extension.__name__]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_round_trip(cls: type) -> None:
    @settings(max_examples=examples(25))
    @given(messages(cls))
    def holds(message: Any) -> None:
        assert decode(cls, encode(message)) == message

    holds()


@pytest.mark.parametrize("cls", ORIGINALS, ids=lambda cls: cls.__name__)
def test_a_peer_without_extensions_reads_ours(cls: type) -> None:
    """The messages as the original declares them: no field from 1000 up."""
    plain = PLAIN[cls]

    @settings(max_examples=examples(15))
    @given(messages(cls))
    def holds(message: Any) -> None:
        theirs = plain.FromString(encode(message))
        assert theirs.IsInitialized()
        for attribute, spec in specs(cls).items():
            value = getattr(message, attribute)
            if spec.number >= 1000 or spec.label is Label.REPEATED or not isinstance(value, str | int | bytes):
                continue
            assert getattr(theirs, proto_name(attribute)) == value
        assert not any(field.number >= 1000 for field, _ in theirs.ListFields())

    holds()


PLAIN = build(ORIGINALS, max_number=999)


def test_the_plain_messages_have_no_extensions() -> None:
    file = FileDescriptorProto.FromString(file_descriptor(ORIGINALS, max_number=999))
    numbers = {field.number for message in file.message_type for field in message.field}
    assert numbers
    assert max(numbers) < 100


def test_the_descriptor_is_one_that_protobuf_writes() -> None:
    """It is written by hand; protobuf's own classes read and write the same."""
    written = file_descriptor(CLASSES)
    file = FileDescriptorProto.FromString(written)
    assert file.SerializeToString() == written
    assert (file.syntax, file.package) == ("proto2", "")
    assert {message.name for message in file.message_type} == {cls.__name__ for cls in CLASSES}
    labels = {1: Label.OPTIONAL, 2: Label.REQUIRED, 3: Label.REPEATED}
    for cls, message in zip(CLASSES, file.message_type, strict=True):
        told = [(field.name, field.number, labels[field.label]) for field in message.field]
        wanted = [(proto_name(name), spec.number, spec.label) for name, spec in specs(cls).items()]
        assert told == wanted


def test_absent_is_not_zero() -> None:
    absent = SendMessageResponseB2P(success=True, err_code=200, err_msg="")
    zero = SendMessageResponseB2P(success=True, err_code=200, err_msg="", message_id=0, append_offset=0)
    assert decode(SendMessageResponseB2P, encode(absent)).message_id is None
    assert decode(SendMessageResponseB2P, encode(zero)).message_id == 0
    assert len(encode(zero)) > len(encode(absent))


def test_required_fields_are_written_when_they_are_zero() -> None:
    assert encode(TransferedMessage(message_id=0, check_sum=0, pay_load_data=b"", flag=0)).hex() == "080010001a002000"


def test_missing_fields_are_named_as_the_original_names_them() -> None:
    with pytest.raises(EnvelopeError) as caught:
        decode(SendMessageRequestP2B, bytes.fromhex("0a0178"))
    assert caught.value.fatal
    assert caught.value.exception_name == "com.google.protobuf.InvalidProtocolBufferException"
    assert caught.value.text == (
        "IPC server handle request error :Message missing required fields: "
        "topicName, partitionId, data, flag, checkSum, sentAddr"
    )


def test_missing_fields_of_a_part_are_found() -> None:
    # authInfo (field 2) without its... own required field inside (userName and the rest)
    with pytest.raises(EnvelopeError, match=r"authInfo\.authInfo\.userName"):
        decode(CloseRequestP2M, b"\x0a\x01p" + b"\x12\x02\x0a\x00")


def test_unknown_fields_are_skipped() -> None:
    data = encode(CloseRequestP2M(client_id="p")) + bytes.fromhex("f83f05" + "fa3f0161")
    assert decode(CloseRequestP2M, data) == CloseRequestP2M(client_id="p")


def test_an_unknown_status_is_a_missing_one() -> None:
    with pytest.raises(EnvelopeError, match="status"):
        decode(ResponseHeader, b"\x08\x09")
    assert decode(ResponseHeader, b"\x08\x02").status is Status.FATAL


def test_text_that_is_not_utf8_is_read_as_the_original_reads_it() -> None:
    read = decode(HeartRequestP2M, b"\x0a\x02\xff\xfe\x10\x01\x1a\x01h\x22\x02a\xff\x22\x01b")
    assert (read.client_id, read.topic_list) == ("\ufffd\ufffd", ("a\ufffd", "b"))


@given(st.sampled_from(CLASSES), st.binary(max_size=80))
def test_noise_gives_a_message_or_envelope_error(cls: type, noise: bytes) -> None:
    error = fault(lambda: decode(cls, noise), EnvelopeError)
    assert error is None or error.text.startswith("IPC server handle request error :")


@given(st.data())
def test_damaged_messages_give_a_message_or_envelope_error(data: st.DataObject) -> None:
    cls = data.draw(st.sampled_from(CLASSES))
    raw = bytearray(encode(data.draw(messages(cls))))
    if raw:
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    error = fault(lambda: decode(cls, bytes(raw)), EnvelopeError)
    assert error is None or error.text.startswith("IPC server handle request error :")


def test_a_value_that_does_not_fit_is_the_callers_fault() -> None:
    with pytest.raises((TypeError, ValueError)):
        encode(HeartRequestP2M(client_id="p", broker_check_sum=2**63, host_name="h"))


def test_every_class_stands_in_one_file_and_has_its_own_numbers() -> None:
    assert len(CLASSES) == len({cls.__name__ for cls in CLASSES})
    assert sum(len(message_classes(module)) for module in FILES.values()) == len(CLASSES)
    for cls in CLASSES:
        numbers = [spec.number for spec in specs(cls).values()]
        assert len(numbers) == len(set(numbers)), cls.__name__


def test_a_stored_entry_is_a_plain_message_to_a_peer_that_knows_four_fields() -> None:
    ours = TransferedMessage(message_id=1, check_sum=2, pay_load_data=b"x", flag=0, offset=28, sequence=3)
    theirs = PLAIN[TransferedMessage].FromString(encode(ours))
    assert [field.name for field, _ in theirs.ListFields()] == ["messageId", "checkSum", "payLoadData", "flag"]


def test_a_message_in_slices_is_the_message() -> None:
    results = tuple(ResetResult(err_code=200, new_offset=at) for at in range(7))
    whole = ResetOffsetsResponse(success=True, err_code=200, err_msg="OK!", results=results)
    parts = [encode(replace(whole, results=()))]
    parts += [encode_values(ResetOffsetsResponse, "results", results[at : at + 3]) for at in range(0, 7, 3)]
    assert b"".join(parts) == encode(whole)
    head, values = decode_apart(ResetOffsetsResponse, b"".join(parts), "results")
    assert head == replace(whole, results=())
    assert len(values) == 7
    assert [len(part) for part in values.slices(3)] == [3, 3, 1]
    assert tuple(value for part in values.slices(3) for value in part) == results


def test_a_message_without_a_required_field_is_refused_before_its_values_are_taken() -> None:
    broken = encode(ResetOffsetsResponse(success=True, err_code=200, err_msg="")) + b"\x22\x00"
    with pytest.raises(EnvelopeError, match="missing required fields"):
        decode_apart(ResetOffsetsResponse, broken, "results")
