"""The promise of every format: whatever a record holds, it changes nothing for the records beside it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytubemq.decode import make_decoder
from pytubemq.decode.inlong.encode import encode_inlong, encode_inlong_protobuf
from tests.support.properties import examples
from tests.unit.decode.avro import AVRO, datum

if TYPE_CHECKING:
    from pytubemq.decode.decoder import Decoder

SCHEMA = "id INT, name STRING, at TIMESTAMP, ok BOOLEAN, price DECIMAL(6,2)"
NUMBERS = ["1", "-7", " 3 ", "", "x", "99999999999", "true", "2024-01-01", "2024-01-01T00:00:00Z", "1.25", "1.255"]
MARKS = ['"', '"a,b"', 'a"b', "\\", "\n", "\r\n", "\ufeff", "\0", "\u20ac", "NULL", ",", "&", "="]
CELLS = st.sampled_from([*NUMBERS, *MARKS])
ODD = st.binary(max_size=30)
CSV = st.lists(CELLS, min_size=1, max_size=7).map(lambda cells: ",".join(cells).encode()) | ODD
KV = (
    st.lists(st.tuples(st.sampled_from(["id", "name", "at", "ok", "price", "zz"]), CELLS), max_size=6).map(
        lambda pairs: "&".join(f"{name}={value}" for name, value in pairs).encode()
    )
    | ODD
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | CELLS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CELLS, inner, max_size=3),
    max_leaves=5,
)
ROWS = st.dictionaries(st.sampled_from(["id", "name", "at", "ok", "price", "zz"]), VALUES, max_size=6)
JSON = (ROWS | VALUES).map(lambda value: json.dumps(value).encode()) | ODD
CHANGES = (
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["INSERT", "update", "DELETE", "CREATE", 1]),
            "op": st.sampled_from(["c", "u", "d", "r", "t", None]),
            "data": st.lists(ROWS | VALUES, max_size=3) | VALUES,
            "old": st.lists(ROWS, max_size=3) | VALUES,
            "before": ROWS | VALUES,
            "after": ROWS | VALUES,
            "payload": ROWS | VALUES,
            "es": VALUES,
            "ts_ms": VALUES,
            "source": ROWS | VALUES,
        },
    ).map(lambda value: json.dumps(value).encode())
    | ODD
)


DATA = (
    st.fixed_dictionaries(
        {"id": st.integers(-100, 100), "name": st.none() | CELLS, "tags": st.lists(CELLS, max_size=3)}
    ).map(datum)
    | ODD
)
WRAPPED = (
    st.lists(CSV, max_size=4).map(lambda records: encode_inlong([({"dt": "1"}, records)], created_ms=1)) | ODD | CSV
)
TIMES_MS = st.sampled_from([0, 1 << 53, -(1 << 53), (1 << 63) - 1, -(1 << 63)]) | st.integers(-(1 << 63), (1 << 63) - 1)
PROTOBUF = st.lists(st.tuples(TIMES_MS, CSV, st.just({})), max_size=4).map(encode_inlong_protobuf) | ODD
META = "_op,_ts,_database,_table,_before"
CASES: dict[str, tuple[Decoder, st.SearchStrategy[bytes]]] = {
    "raw": (make_decoder("raw", schema="value STRING", options={"charset": "ascii"}), CSV),
    "csv": (make_decoder("csv", schema=SCHEMA), CSV),
    "csv-one": (make_decoder("csv", schema="name STRING", options={"quoteChar": '"'}), CSV | CELLS.map(str.encode)),
    "csv-quoted": (make_decoder("csv", schema=SCHEMA, options={"quoteChar": '"'}), CSV),
    "csv-escaped": (make_decoder("csv", schema=SCHEMA, options={"quoteChar": '"', "escapeChar": "\\"}), CSV),
    "csv-lenient": (
        make_decoder(
            "csv",
            schema=SCHEMA,
            options={
                "ignoreErrors": "true",
                "ignoreTrailingUnmappable": "true",
                "insertNullsForMissingColumns": "true",
                "nullLiteral": "NULL",
                "deleteHeadDelimiter": "true",
                "timeZone": "Asia/Shanghai",
            },
        ),
        CSV,
    ),
    "csv-lines": (make_decoder("csv", schema=SCHEMA, options={"lineDelimiter": "\\n"}), CSV),
    "csv-gbk": (make_decoder("csv", schema=SCHEMA, options={"charset": "gbk", "timestampFormat": "millis"}), CSV),
    "kv": (make_decoder("kv", schema=SCHEMA), KV),
    "kv-quoted": (make_decoder("kv", schema=SCHEMA, options={"quoteChar": '"', "escapeChar": "\\"}), KV),
    "json": (make_decoder("json", schema=f"{SCHEMA}, zz ARRAY<MAP<STRING, DOUBLE>>"), JSON),
    "json-cast": (make_decoder("json", schema=SCHEMA, options={"castStrings": "true", "ignoreErrors": "true"}), JSON),
    "avro": (make_decoder("avro", options={"avroSchema": json.dumps(AVRO)}), DATA),
    "canal": (make_decoder("canal-json", schema=SCHEMA, options={"metadata": META}), CHANGES),
    "debezium": (make_decoder("debezium-json", schema=SCHEMA, options={"metadata": META}), CHANGES),
    "inlong-csv": (make_decoder("inlong-msg", schema=SCHEMA, inner="csv"), WRAPPED),
    "inlong-pb": (make_decoder("inlong-msg", schema=SCHEMA, inner="csv", options={"wrap": "pb"}), PROTOBUF),
}


def decoded(decoder: Decoder, bodies: list[bytes | None]) -> tuple[list[Any], list[Any]]:
    count = len(bodies)
    batch = pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary()), pa.array(range(count))], ["body", "offset"])
    done = decoder.decode(batch, keep=["offset"])
    done.rows.validate(full=True)
    done.rejected.validate(full=True)
    assert done.rows.schema.names == [*(column.name for column in decoder.columns), "offset"]
    rejected = [(row["reason"], row["detail"], row["record"], row["raw"]) for row in done.rejected.to_pylist()]
    return with_times_as_numbers(done.rows).to_pylist(), list(
        zip(done.rejected_rows.to_pylist(), rejected, strict=True)
    )


def with_times_as_numbers(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows whose times may be beyond what Python's can say."""
    arrays = [
        rows[name].cast(pa.int64()) if pa.types.is_timestamp(rows[name].type) else rows[name]
        for name in rows.schema.names
    ]
    return pa.RecordBatch.from_arrays(arrays, rows.schema.names)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=examples(30))
@given(data=st.data())
def test_records_together_are_decoded_as_each_alone(case: str, data: st.DataObject) -> None:
    decoder, bodies_of = CASES[case]
    bodies = data.draw(st.lists(bodies_of | st.none(), max_size=8))
    rows, rejected = decoded(decoder, bodies)
    rows_alone: list[Any] = []
    rejected_alone: list[Any] = []
    for at, body in enumerate(bodies):
        own, wrong = decoded(decoder, [body])
        rows_alone += [{**row, "offset": at} for row in own]
        rejected_alone += [(at, told) for _, told in wrong]
    assert str(rows) == str(rows_alone)
    assert str(rejected) == str(rejected_alone)
