"""Each format's own rules, by example."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pytubemq.decode import make_decoder
from pytubemq.decode.decoder import KEPT_BYTES
from pytubemq.decode.formats.avro_schema import fingerprint
from pytubemq.model.limits import MAX_RECORDS_PER_MESSAGE
from tests.unit.decode.avro import AVRO, datum

NOON = datetime(2024, 1, 31, 12, tzinfo=UTC)


def rows_and_details(
    format: str, bodies: list[Any], schema: str | None = None, **options: str
) -> tuple[list[tuple[Any, ...]], list[str]]:
    decoder = make_decoder(format, schema=schema, options=options)
    bodies = [body if isinstance(body, bytes | None) else json.dumps(body).encode() for body in bodies]
    done = decoder.decode(pa.record_batch({"body": pa.array(bodies, pa.binary())}))
    rows = [tuple(row.values()) for row in done.rows.to_pylist()]
    return rows, [row["detail"] for row in done.rejected.to_pylist()]


def test_csv_reads_every_type_strictly() -> None:
    schema = "t TINYINT, d DOUBLE, m DECIMAL(5,2), b BOOLEAN, day DATE, at TIMESTAMP, n TIMESTAMP_NTZ, raw BINARY"
    fine = b"-128, 1.5 ,3.1,TRUE,2024-01-31,2024-01-31T20:00:00.0000001+08:00,2024-01-31 12:00:00,\xe2\x82\xac"
    zoned = b"1,1,1,1,2024-01-31,2024-01-31 12:00:00,2024-01-31T12:00:00Z,"
    rows, details = rows_and_details("csv", [fine, zoned, b"128,,,,,,,", b",,3.141,,,,,", b",,,,,2024-02-30,,"], schema)
    naive = NOON.replace(tzinfo=None)
    assert rows == [(-128, 1.5, Decimal("3.10"), True, date(2024, 1, 31), NOON, naive, "\u20ac".encode())]
    assert details == [
        "column n: '2024-01-31T12:00:00Z' is not a valid timestamp_ntz",
        "column t: '128' is not a valid tinyint",
        "column m: '3.141' is not a valid decimal(5,2)",
        "column at: '2024-02-30' is not a valid timestamp",
    ]


@pytest.mark.parametrize(
    ("options", "body", "row"),
    [
        ({"fieldDelimiter": "\\t", "nullLiteral": "\\N"}, b"\\N\t\\N", (None, None)),
        ({"emptyStringAsNull": "true"}, b",", (None, None)),
        ({}, b",", (None, "")),
        ({"deleteHeadDelimiter": "true"}, b",1,x", (1, "x")),
        ({"ignoreTrailingUnmappable": "true"}, b"1,x,y,z", (1, "x")),
        ({"insertNullsForMissingColumns": "true"}, b"1", (1, None)),
        ({"ignoreErrors": "true"}, b"one,x", (None, "x")),
        ({"quoteChar": "'"}, b"1,'it''s, he said'", (1, "it's, he said")),
        ({"escapeChar": "\\\\"}, b"1,a\\,b\\\\", (1, "a,b\\")),
        ({"charset": "gbk"}, "1,\u4e2d\u6587".encode("gbk"), (1, "\u4e2d\u6587")),
        ({"fieldDelimiter": "\\u00a7"}, "1\u00a7x".encode(), (1, "x")),
    ],
)
def test_csv_follows_its_options(options: dict[str, str], body: bytes, row: tuple[Any, ...]) -> None:
    assert rows_and_details("csv", [body], "id INT, name STRING", **options) == ([row], [])


@pytest.mark.parametrize(
    ("time_format", "text"),
    [
        ("seconds", "1706702400"),
        ("millis", "1706702400000"),
        ("micros", "1706702400000000"),
        ("%Y%m%d%H%M", "202401312000"),
    ],
)
def test_times_are_read_in_the_form_that_is_set(time_format: str, text: str) -> None:
    options = {"timestampFormat": time_format, "timeZone": "Asia/Shanghai"}
    assert rows_and_details("csv", [text.encode(), b"x"], "at TIMESTAMP", **options) == (
        [(NOON,)],
        ["column at: 'x' is not a valid timestamp"],
    )
    value = {"at": text if "%" in time_format else int(text)}
    assert rows_and_details("json", [value], "at TIMESTAMP", **options) == ([(NOON,)], [])


def test_a_message_of_lines_is_as_many_records_and_each_is_rejected_alone() -> None:
    decoder = make_decoder("csv", schema="id INT", options={"lineDelimiter": "\\n"})
    bodies = [b"1\r\n2\nx\n", b"", b"4\n\n5"]
    done = decoder.decode(pa.record_batch({"body": bodies, "offset": [0, 28, 56]}), keep=["offset"])
    assert [tuple(row.values()) for row in done.rows.to_pylist()] == [
        (1, 0),
        (2, 0),
        (None, 28),
        (4, 56),
        (None, 56),
        (5, 56),
    ]
    (bad,) = done.rejected.to_pylist()
    assert (bad["record"], bad["stage"], bad["raw"], bad["offset"]) == (2, "record", b"x", 0)


def test_a_message_of_too_many_lines_is_rejected_whole_and_harms_no_other() -> None:
    decoder = make_decoder("raw", options={"lineDelimiter": "\\n"})
    most = MAX_RECORDS_PER_MESSAGE
    bodies = pa.array([b"a\nb", b"\n" * most, None, b"c", b"\n" * (most - 1), b"d"])
    parts = list(decoder.pieces(pa.record_batch({"body": bodies})))
    assert max(part.rows.num_rows for part in parts) <= most
    values = [value for part in parts for value in part.rows.column(0).to_pylist() if value]
    assert values == [b"a", b"b", b"c", b"d"]
    rejected = [row for part in parts for row in part.rejected.to_pylist()]
    assert [(row["reason"], row["stage"]) for row in rejected] == [("decode.lines", "message")] * 2
    assert [row["detail"] for row in rejected] == ["1000001 records, more than the 1000000 allowed", "there is no body"]


@pytest.mark.slow
def test_what_is_kept_of_a_message_of_many_records_comes_in_bounded_portions() -> None:
    decoder = make_decoder("raw", options={"lineDelimiter": "|"})
    kind = pa.map_(pa.string(), pa.string())
    bodies = pa.array([b"|" * 20_000, b"last"])
    pairs = pa.array([[("k", "v" * 10_000)], None], kind)
    batch = pa.RecordBatch.from_arrays([bodies, pairs], ["body", "attributes"])
    parts = [part.rows for part in decoder.pieces(batch, keep=["body", "attributes"])]
    assert len(parts) > 5
    assert sum(part.num_rows for part in parts) == 20_001
    assert max(part.nbytes for part in parts) < 2 * KEPT_BYTES
    (last,) = parts[-1].slice(parts[-1].num_rows - 1).to_pylist()
    assert last == {"value": b"last", "body": b"last", "attributes": None}


def test_kv_reads_by_name_and_the_last_of_equal_names_counts() -> None:
    bodies = [b"name=a=b&id=1&more=2", b"id=1&id=2", b"id=x", b"name", b""]
    assert rows_and_details("kv", bodies, "id INT, name STRING") == (
        [(1, "a=b"), (2, None), (None, None)],
        ["column id: 'x' is not a valid int", "the field 'name' has no '='"],
    )
    options = {"failOnMissingField": "true", "entryDelimiter": ";", "kvDelimiter": ":", "quoteChar": '"'}
    assert rows_and_details("kv", [b'id:1;name:"a;b:c"', b"id:1"], "id INT, name STRING", **options) == (
        [(1, "a;b:c")],
        ["column name: there is no such field"],
    )


def test_json_is_strict_about_types_and_lenient_about_what_is_not_asked_for() -> None:
    schema = (
        "id INT, name STRING, tags ARRAY<STRUCT<k: STRING, v: INT>>, m MAP<STRING, DOUBLE>, raw BINARY, at TIMESTAMP"
    )
    fine = {
        "id": 1,
        "more": [1],
        "tags": [{"k": "a"}, {"v": 2, "z": 0}],
        "m": {"x": 1},
        "raw": "AAE=",
        "at": "2024-01-31 12:00:00",
    }
    wrong: list[Any] = [
        {"id": "1"},
        {"id": 1.0},
        {"id": 2147483648},
        {"name": 5},
        {"tags": [{"v": "2"}]},
        {"raw": "!"},
        {"at": 5},
        [1],
        b"{",
        b'{"name": "\\ud800"}',
    ]
    rows, details = rows_and_details("json", [fine, *wrong, {}], schema)
    tags = [{"k": "a", "v": None}, {"k": None, "v": 2}]
    assert rows == [(1, None, tags, [("x", 1.0)], b"\0\x01", NOON), (None,) * 6]
    assert details[:7] == [
        "column id: '1' is not a valid int",
        "column id: 1.0 is not a valid int",
        "column id: 2147483648 is not a valid int",
        "column name: 5 is not a valid string",
        "column tags: [{'v': '2'}] is not a valid array<struct<k: string, v: int>>",
        "column raw: '!' is not a valid binary",
        "column at: 5 is not a valid timestamp",
    ]
    assert all(detail.startswith("not a JSON object") for detail in details[7:])
    assert details[8] == "not a JSON object with the columns: Input data was truncated; it begins '{'"
    assert len(details) == len(wrong)


def test_json_can_be_told_to_read_texts_and_to_want_every_field() -> None:
    body = {"id": " 7 ", "ok": "true", "x": "1.5"}
    assert rows_and_details("json", [body], "id INT, ok BOOLEAN, x DOUBLE", castStrings="true") == (
        [(7, True, 1.5)],
        [],
    )
    _, details = rows_and_details("json", [{"id": 1}], "id INT, name STRING", failOnMissingField="true")
    assert len(details) == 1
    assert "name" in details[0]
    assert rows_and_details("json", [{"id": "x", "name": "n"}], "id INT, name STRING", ignoreErrors="true") == (
        [(None, "n")],
        [],
    )


@pytest.mark.parametrize(
    "body", [b"null", b'{"id": 1} null {"id": 2}', b"[" * 1_000_000, b'{"id":' * 100_000, b"", None]
)
def test_what_ends_or_misleads_other_readers_of_json_is_one_rejected_record(body: bytes | None) -> None:
    rows, details = rows_and_details("json", [{"id": 1}, body, {"id": 2}], "id INT")
    assert (rows, len(details)) == ([(1,), (2,)], 1)


def test_a_json_decimal_keeps_every_digit() -> None:
    bodies: list[Any] = [b'{"m": 1234567890123456.789}', b'{"m": "0.001"}', b'{"m": 0.0001}']
    rows, details = rows_and_details("json", bodies, "m DECIMAL(20,3)")
    assert rows == [(Decimal("1234567890123456.789"),), (Decimal("0.001"),)]
    assert len(details) == 1


def test_canal_makes_a_row_of_each_changed_row() -> None:
    change = {"database": "shop", "table": "item_1", "es": 1706702400000, "isDdl": False}
    bodies: list[Any] = [
        {**change, "type": "INSERT", "data": [{"id": "1", "p": "2.50"}, {"id": "2", "p": None}], "old": None},
        {**change, "type": "UPDATE", "data": [{"id": "1", "p": "3"}], "old": [{"p": "2.50"}]},
        {**change, "type": "DELETE", "data": [{"id": "2", "p": ""}]},
        {**change, "type": "ALTER", "isDdl": True, "data": None, "sql": "ALTER TABLE"},
        {**change, "type": "INSERT", "table": "other", "data": [{"id": "9"}]},
        {**change, "type": "INSERT", "data": [{"id": "8"}, {"id": "nine"}]},
        {**change, "type": "INSERT", "data": {"id": "8"}},
    ]
    rows, details = rows_and_details(
        "canal-json",
        bodies,
        "id BIGINT, p DECIMAL(9,2)",
        metadata="_op,_ts,_database,_table,_before",
        tableInclude="item_[0-9]+",
    )
    at = ("shop", "item_1")
    assert rows == [
        (1, Decimal("2.50"), "insert", NOON, *at, None),
        (2, None, "insert", NOON, *at, None),
        (1, Decimal("3.00"), "update", NOON, *at, '{"p":"2.50"}'),
        (2, None, "delete", NOON, *at, '{"id":"2","p":""}'),
    ]
    assert details == ["column id: 'nine' is not a valid bigint", "not a change of Canal: data is not a list of rows"]
    _, details = rows_and_details("canal-json", bodies[3:4], "id BIGINT", ddl="reject")
    assert details == ["type 'ALTER' changes a table, not rows"]


@pytest.mark.parametrize("envelope", [True, False])
def test_debezium_makes_a_row_of_each_change_with_and_without_the_schema(envelope: bool) -> None:
    source = {"db": "shop", "table": "item", "ts_ms": 1706702400000}
    row = {"id": 1, "day": 19753, "at": 1706702400000, "p": 2.5}
    changes: list[Any] = [
        {"op": "r", "before": None, "after": row, "source": source},
        {"op": "u", "before": {"id": 1, "p": 12.50}, "after": {**row, "at": "2024-01-31T12:00:00Z"}, "source": source},
        {"op": "d", "before": {"id": 1}, "after": None, "source": source, "ts_ms": 5},
    ]
    bodies = [{"schema": {"type": "struct"}, "payload": change} for change in changes] if envelope else changes
    schema = "id BIGINT, day DATE, at TIMESTAMP, p DOUBLE"
    rows, details = rows_and_details("debezium-json", [*bodies, b""], schema, metadata="_op,_ts,_table,_before")
    day = date(2024, 1, 31)
    assert rows == [
        (1, day, NOON, 2.5, "insert", NOON, "item", None),
        (1, day, NOON, 2.5, "update", NOON, "item", '{"id":1,"p":12.5}'),
        (1, None, None, None, "delete", NOON, "item", '{"id":1}'),
    ]
    assert details == []


def test_debezium_rejects_what_is_no_change_of_a_row() -> None:
    bodies: list[Any] = [{"op": "d", "before": None}, {"op": "t"}, {"id": 1}, b"nonsense"]
    _, details = rows_and_details("debezium-json", bodies, "id INT")
    assert details[:3] == [
        "op 'd' without before",
        "op 't' is not a change of a row",
        "not a change of Debezium: there is no field op",
    ]
    assert details[3].startswith("not JSON")


def test_avro_is_read_to_its_last_byte() -> None:
    body = datum({"id": 5, "name": None, "tags": ["a", "b"]})
    text = json.dumps(AVRO)
    rows, details = rows_and_details("avro", [body, body + b"\0", body[:-1], b"\xff" * 30], avroSchema=text)
    assert rows == [(5, None, ["a", "b"])]
    assert [detail.split(":")[0] for detail in details] == ["not a datum of the schema"] * 3
    assert rows_and_details("avro", [body], "tags ARRAY<STRING>", avroSchema=text)[0] == [(["a", "b"],)]


def test_a_single_avro_object_tells_its_schema_by_its_fingerprint() -> None:
    newer = {**AVRO, "fields": [*AVRO["fields"], {"name": "more", "type": "boolean"}]}
    old, new = (b"\xc3\x01" + fingerprint(fastavro.parse_schema(each)) for each in (AVRO, newer))
    body = datum({"id": 5, "name": "n", "tags": []})
    options = {"avroSchema": json.dumps([AVRO, newer]), "encoding": "single-object"}
    rows, details = rows_and_details(
        "avro", [old + body, new + body + b"\x01", b"\xc3\x01" + b"\0" * 8 + body, body], **options
    )
    assert rows == [(5, "n", [], None), (5, "n", [], True)]
    assert [detail.split("'")[1][:14] for detail in details] == ["no schema has ", "it does not be"]


def test_raw_keeps_the_message() -> None:
    assert rows_and_details("raw", [b"\xff\0", None]) == ([(b"\xff\0",), (None,)], [])
    assert rows_and_details("raw", ["\u20ac".encode(), b"\xff"], "line STRING") == (
        [("\u20ac",)],
        ["column line: the bytes are not utf-8"],
    )
