"""InLongMsg: real messages, what is encoded and read back, cut off, or too much."""

from __future__ import annotations

import gzip
import json
import struct
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.decode import make_decoder
from pytubemq.decode.inlong.compression import pack_snappy, unpack_gzip, unpack_snappy
from pytubemq.decode.inlong.encode import (
    encode_inlong,
    encode_inlong_protobuf,
    encode_inlong_v3,
    encode_inlong_v4,
)
from pytubemq.decode.inlong.group import Bounds, Group, InLongError
from pytubemq.decode.inlong.modified_utf8 import read_utf, write_utf
from pytubemq.decode.inlong.protobuf import parse_protobuf
from pytubemq.decode.inlong.unwrap import MAX_LEADING_CHANGES
from pytubemq.decode.inlong.varint import varint
from pytubemq.decode.inlong.versions import parse, version_of

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLISHED = Path(__file__).parents[2] / "vectors" / "inlongmsg" / "published.jsonl"
VECTORS = [json.loads(line) for line in PUBLISHED.read_text().splitlines()]
BOUNDS = Bounds(1 << 20, 1000, 1 << 16)
NAMES = st.text(st.characters(exclude_characters="&=", exclude_categories=["Cs"]), min_size=1, max_size=6)
TEXTS = st.text(st.characters(exclude_characters="&", exclude_categories=["Cs"]), max_size=10)
ATTRIBUTES = st.dictionaries(NAMES, TEXTS, max_size=4)
BODIES = st.binary(max_size=40)
RECORDS = st.lists(BODIES, max_size=5)


def plain(groups: list[Group]) -> list[tuple[dict[str, str], list[bytes]]]:
    return [(dict(group.attributes), group.records) for group in groups]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_messages_seen_in_the_wild_are_read(vector: dict[str, Any]) -> None:
    message = bytes.fromhex(vector["message_hex"])
    told = vector["decoded"]
    assert version_of(message) == told["version"]
    assert struct.unpack(">q", message[2:10])[0] == told["create_time_ms"]
    found = parse(message, BOUNDS)
    assert len(found) == len(told["groups"])
    for group, expected in zip(found, told["groups"], strict=True):
        assert "&".join(f"{name}={value}" for name, value in group.attributes.items()) == expected["attributes"]
        assert [record.hex() for record in group.records] == expected["records_hex"]


def test_a_message_seen_in_the_wild_becomes_typed_rows() -> None:
    decoder = make_decoder("inlong-msg", schema="id INT, name STRING NOT NULL", inner="csv")
    batch = pa.record_batch({"body": [bytes.fromhex(VECTORS[0]["message_hex"])], "offset": [28]})
    done = decoder.decode(batch, keep=["offset"])
    rows = done.rows.to_pylist()
    assert [(row["id"], row["name"]) for row in rows] == [
        (1, "qq"),
        (2, "w"),
        (33, "qw"),
        (2, "w"),
        (3, "www"),
        (None, "www"),
    ]
    assert {row["inlongmsg_time"].isoformat() for row in rows} == {"2023-04-17T15:25:36.747000+00:00"}
    assert dict(rows[0]["inlongmsg_attributes"])["streamId"] == "test_stream"
    (header,) = done.rejected.to_pylist()
    assert (header["reason"], header["record"], header["offset"], header["raw"]) == ("decode.csv", 0, 28, b"id,name")
    assert header["detail"] == "column id: 'id' is not a valid int"
    assert dict(header["attributes"])["syncSend"] == "false"


@given(st.lists(st.tuples(ATTRIBUTES, RECORDS), max_size=3), st.sampled_from([0, 1, 2]), st.booleans())
def test_versions_0_to_2_are_read_as_encoded(groups: list[Any], version: int, compress: bool) -> None:
    message = encode_inlong(groups, version=version, compress=compress, created_ms=5)
    assert plain(parse(message, BOUNDS)) == [(attributes, records) for attributes, records in groups]


@given(ATTRIBUTES, st.lists(st.tuples(BODIES, ATTRIBUTES), max_size=5), st.booleans())
def test_version_3_is_read_as_encoded(common: dict[str, str], records: list[Any], compress: bool) -> None:
    found = parse(encode_inlong_v3([(common, records)], compress=compress, created_ms=5), BOUNDS)
    flat = [(record, dict(group.attributes)) for group in found for record in group.records]
    assert flat == [(record, {**common, **own}) for record, own in records]


@given(
    ATTRIBUTES,
    st.lists(st.tuples(BODIES, ATTRIBUTES), max_size=5),
    st.booleans(),
    st.none() | st.tuples(st.integers(0, 65535), st.integers(0, 65535)),
    st.booleans(),
    st.integers(0, (1 << 31) - 1),
)
def test_version_4_is_read_as_encoded(
    common: dict[str, str],
    records: list[Any],
    with_own: bool,
    numbers: tuple[int, int] | None,
    compress: bool,
    time_s: int,
) -> None:
    message = encode_inlong_v4(
        common,
        [record for record, _ in records],
        own=[own for _, own in records] if with_own else None,
        numbers=numbers,
        time_s=time_s,
        compress=compress,
    )
    found = parse(message, BOUNDS)
    told = {**common, "dt": str(time_s * 1000), "cnt": str(len(records))}
    if numbers is not None:
        told |= {"groupId": str(numbers[0]), "streamId": str(numbers[1])}
    flat = [(record, dict(group.attributes)) for group in found for record in group.records]
    assert flat == [(record, {**own, **told} if with_own else told) for record, own in records]
    assert {group.time_ms for group in found} <= {time_s * 1000}


@given(
    st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), BODIES, ATTRIBUTES), max_size=5),
    st.sampled_from([("none", "0"), ("gzip", "1"), ("snappy", "2"), ("gzip", None), ("none", None)]),
    TEXTS,
)
def test_the_protobuf_form_is_read_as_encoded(records: list[Any], how: tuple[str, str | None], source: str) -> None:
    message = encode_inlong_protobuf(records, source=source, compression=how[0])
    attributes = {"inlongGroupId": "g"} | ({} if how[1] is None else {"compressType": how[1]})
    found = parse_protobuf(message, attributes, "auto", BOUNDS)
    flat = [(group.time_ms, record, dict(group.attributes)) for group in found for record in group.records]
    common = {**attributes, "groupId": "g"}
    assert flat == [
        (at, body, {**common, "dt": str(at), **own, **({"sourceIp": source} if source else {})})
        for at, body, own in records
    ]


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x0f\x00", b"\x0f\x01", b"\x0f\x02", b"\x0f\x03", b"\x0f\x04"]))
def test_any_bytes_are_read_or_refused(data: bytes, magic: bytes) -> None:
    for read in (partial(parse, magic + data + magic, BOUNDS), partial(parse_protobuf, data, {}, "auto", BOUNDS)):
        try:
            found = [record for group in read() for record in group.records]
        except InLongError as error:
            found = [str(error).encode()]
        assert all(isinstance(each, bytes) for each in found)


def whole_messages() -> Mapping[str, bytes]:
    attributes = {"dt": "1700000000000", "streamId": "s"}
    records = [b"1,a", b"2,b"]
    own = [(record, {"k": "v"}) for record in records]
    made = {
        f"v{version}": encode_inlong([(attributes, records)] * 2, version=version, created_ms=1) for version in (0, 2)
    }
    made["plain"] = encode_inlong([(attributes, records)], compress=False, created_ms=1)
    made["v3"] = encode_inlong_v3([(attributes, own)], compress=False, created_ms=1)
    made["v4"] = encode_inlong_v4(attributes, records, time_s=1, compress=False)
    made["v4-own"] = encode_inlong_v4({}, records, own=[each for _, each in own], numbers=(1, 2), time_s=1)
    return made


@pytest.mark.parametrize(("name", "message"), whole_messages().items())
def test_a_message_cut_off_anywhere_is_refused_whole(name: str, message: bytes) -> None:
    magic = message[:2]
    for end in range(2, len(message) - 2):
        with pytest.raises(InLongError):
            parse(message[:end] + magic, BOUNDS)
    with pytest.raises(InLongError):
        parse(message[:-2] + b"\0" + magic, BOUNDS)


def test_what_would_be_too_large_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(InLongError, match="1099511627776 bytes after Snappy"):
        unpack_snappy(varint(1 << 40) + b"\0", 1 << 20)
    bomb = gzip.compress(b"\0" * 5_000_000)
    with pytest.raises(InLongError, match="more than the 1048576 bytes"):
        unpack_gzip(bomb, 1 << 20)
    with pytest.raises(InLongError, match="not Snappy"):
        unpack_snappy(varint(100) + b"\xff" * 5, 1 << 20)
    many = encode_inlong([({}, [b""] * 1001)], created_ms=1)
    with pytest.raises(InLongError, match="too many records"):
        parse(many, BOUNDS)
    spread = encode_inlong([({"n": str(n)}, [b""] * 400) for n in range(3)], created_ms=1)
    with pytest.raises(InLongError, match="too many records"):
        parse(spread, BOUNDS)
    large = encode_inlong([({"n": str(n)}, [b"x" * 400_000]) for n in range(3)], created_ms=1)
    with pytest.raises(InLongError, match="bytes"):
        parse(large, BOUNDS)


@given(st.binary(max_size=300))
def test_snappy_returns_what_was_packed(data: bytes) -> None:
    assert unpack_snappy(pack_snappy(data), 300) == data


@given(st.text())
def test_javas_text_is_read_as_written(text: str) -> None:
    text = text.encode("utf-16", "ignore").decode("utf-16")
    assert read_utf(write_utf(text)) == text


def test_bounds_are_options_of_the_user() -> None:
    message = encode_inlong([({}, [b"1", b"2", b"3"])], created_ms=1)
    decoder = make_decoder("inlong-msg", options={"maxRecords": "2"})
    (row,) = decoder.decode(pa.record_batch({"body": [message]})).rejected.to_pylist()
    assert (row["reason"], row["detail"], row["record"]) == ("decode.inlong-msg", "too many records", None)
    assert row["raw"] == message


def test_predefined_fields_lead_by_their_numbers() -> None:
    two = {"dt": "1", "__addcol2__b": "B,", "__addcol1__a": "7"}
    messages = [
        encode_inlong([(two, [b"x", b"y,z"]), ({"dt": "1"}, [b"8,C,w"])], created_ms=1),
        encode_inlong([({"dt": "1", "__addcol1__a": "q"}, [b"D,v"])], created_ms=1),
    ]
    batch = pa.record_batch({"body": messages})
    schema = "a INT, b STRING, c STRING"
    done = make_decoder("inlong-msg", schema=schema, inner="csv").decode(batch)
    assert [tuple(row.values())[:3] for row in done.rows.to_pylist()] == [(7, "B,", "x"), (8, "C", "w")]
    assert [row["detail"] for row in done.rejected.to_pylist()] == [
        "4 fields where there are 3 columns",
        "column a: 'q' is not a valid int",
    ]
    assert [row["record"] for row in done.rejected.to_pylist()] == [1, 0]
    without = make_decoder("inlong-msg", schema=schema, inner="csv", options={"retainPredefinedField": "false"})
    assert [tuple(row.values())[:3] for row in without.decode(batch).rows.to_pylist()] == [(8, "C", "w")]
    by_name = make_decoder("inlong-msg", schema="a INT, n INT", inner="kv")
    kv = encode_inlong([({"__addcol1__a": "7"}, [b"n=1", b"n=2&a=9"])], created_ms=1)
    assert [(row["a"], row["n"]) for row in by_name.decode(pa.record_batch({"body": [kv]})).rows.to_pylist()] == [
        (7, 1),
        (7, 2),
    ]


def test_groups_with_and_without_predefined_fields_in_turn_count_their_records_on_within_bounds() -> None:
    with_one, without = {"__addcol1__a": "x"}, {"tid": "s"}
    groups = [(with_one, [b"1"]), (without, [b"x,2", b"x"])]
    messages = [encode_inlong(groups * times, created_ms=1) for times in (2, MAX_LEADING_CHANGES)]
    done = make_decoder("inlong-msg", schema="a STRING, n INT", inner="csv").decode(pa.record_batch({"body": messages}))
    assert [row["n"] for row in done.rows.to_pylist()] == [1, 2, 1, 2]
    assert [row["record"] for row in done.rejected.to_pylist()] == [2, 5, None]
    assert "number of __addcol fields changes" in done.rejected.to_pylist()[2]["detail"]


def test_attributes_that_sort_demands_can_be_demanded() -> None:
    fine = {"tid": "s", "t": "202311142213"}
    messages = [encode_inlong([(each, [b"x"])], created_ms=1) for each in (fine, {"tid": "s"}, {"dt": "1"})]
    decoder = make_decoder("inlong-msg", options={"requireAttributes": "true", "timeZone": "Asia/Shanghai"})
    done = decoder.decode(pa.record_batch({"body": messages}))
    assert [row["inlongmsg_time"].isoformat() for row in done.rows.to_pylist()] == ["2023-11-14T14:13:00+00:00"]
    told = [row["detail"] for row in done.rejected.to_pylist()]
    assert ["no time" in told[0], "neither streamId nor tid" in told[1]] == [True, True]


@pytest.mark.parametrize("far_ms", [1 << 62, -(1 << 62), (1 << 63) - 1, -(1 << 63), (1 << 53) + 1])
def test_a_time_that_no_timestamp_holds_is_null_or_rejected_as_one_that_is_missing(far_ms: int) -> None:
    bodies = [encode_inlong_protobuf([(at, b"x", {"streamId": "s"})]) for at in (7, far_ms, 1 << 53, -(1 << 53))]
    batch = pa.record_batch({"body": bodies})
    done = make_decoder("inlong-msg", options={"wrap": "pb"}).decode(batch)
    assert done.rejected.num_rows == 0
    times = done.rows["inlongmsg_time"].cast(pa.int64()).to_pylist()
    assert times == [7000, None, 1000 << 53, -(1000 << 53)]
    assert dict(done.rows["inlongmsg_attributes"].to_pylist()[1])["dt"] == str(far_ms)
    strict = make_decoder("inlong-msg", options={"wrap": "pb", "requireAttributes": "true"}).decode(batch)
    assert strict.rejected_rows.to_pylist() == [1]
    assert "no time that a timestamp can hold" in strict.rejected.to_pylist()[0]["detail"]


def test_the_form_follows_from_the_messages_attributes() -> None:
    wrapped = encode_inlong([({"dt": "1"}, [b"v1"])], created_ms=1)
    protobuf = encode_inlong_protobuf([(7, b"pb", {})], compression="snappy")
    attributes = [{"version": "2"}, {"version": "1", "compressType": "2"}, {"msgEnType": "1"}, {"version": "0"}, None]
    kind = pa.map_(pa.string(), pa.string())
    pairs = pa.array([None if each is None else list(each.items()) for each in attributes], kind)
    bodies = [wrapped, protobuf, encode_inlong_protobuf([(8, b"plain", {})]), b"raw", protobuf]
    batch = pa.record_batch({"body": pa.array(bodies, pa.binary()), "attributes": pairs})
    done = make_decoder("inlong-msg", schema="value STRING").decode(batch)
    assert [row["value"] for row in done.rows.to_pylist()] == ["v1", "pb", "plain"]
    assert done.rejected_rows.to_pylist() == [3, 4]
    assert [row["stage"] for row in done.rejected.to_pylist()] == ["message", "message"]


def test_records_that_were_rejected_are_decoded_again_with_their_attributes() -> None:
    message = encode_inlong([({"dt": "1700000000000", "__addcol1__a": "7"}, [b"x", b"1"])], created_ms=1)
    strict = make_decoder("inlong-msg", schema="a INT, n INT", inner="csv", options={"lineDelimiter": "|"})
    rejected = strict.decode(pa.record_batch({"body": [message]})).rejected
    assert rejected.column("raw").to_pylist() == [b"x"]
    lenient = make_decoder(
        "inlong-msg", schema="a INT, n STRING", inner="csv", options={"lineDelimiter": "|"}
    ).for_records()
    again = pa.RecordBatch.from_arrays([rejected.column("raw"), rejected.column("attributes")], ["body", "attributes"])
    (row,) = lenient.decode(again).rows.to_pylist()
    assert (row["a"], row["n"], row["inlongmsg_time"].year) == (7, "x", 2023)


def test_attributes_that_few_bytes_repeat_many_times_are_refused() -> None:
    long = {"k": "v" * 60_000}
    message = encode_inlong([(long, [b""] * 10_000)], created_ms=1)
    assert len(message) < 64_000
    batch = pa.record_batch({"body": [message]})
    (row,) = make_decoder("inlong-msg").decode(batch).rejected.to_pylist()
    assert row["detail"] == "attributes of 600010000 bytes, when counted once for each record"
    without = make_decoder("inlong-msg", options={"attributesColumn": ""})
    assert without.decode(batch).rows.num_rows == 10_000
    common = {str(n): "" for n in range(100)}
    own = [(b"", {"n": str(n % 2)}) for n in range(20)]
    bounds = Bounds(1 << 20, 1000, 1 << 16, pairs=1000)
    with pytest.raises(InLongError, match="more than 1000 attributes"):
        parse(encode_inlong_v3([(common, own)], created_ms=1), bounds)
    with pytest.raises(InLongError, match="more than 1000 attributes"):
        parse_protobuf(encode_inlong_protobuf([(n, b"", {}) for n in range(20)]), common, "auto", bounds)
