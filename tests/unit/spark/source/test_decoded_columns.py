"""Decoding by options of the source: which columns, and what becomes of what is rejected."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from pytubemq.errors import ConfigError, FormatError
from pytubemq.spark.source.decoded_columns import DecodedColumns
from pytubemq.spark.source.schema import spark_schema
from pytubemq.spark.spark_types import DEAD_LETTER_SCHEMA, arrow_schema_of

OPTIONS = {"decode": "csv", "decode.schema": "id INT, name STRING", "decode.columns": "OFFSET, topic"}


def columns(**more: str) -> DecodedColumns:
    made = DecodedColumns.from_options({**OPTIONS, **{f"decode.{name}": value for name, value in more.items()}})
    assert made is not None
    return made


def raw_batch(made: DecodedColumns, bodies: list[bytes]) -> Any:
    count = len(bodies)
    values: dict[str, list[Any]] = {
        "topic": ["demo"] * count,
        "brokerId": [1] * count,
        "partition": [2] * count,
        "offset": [28 * n for n in range(count)],
        "timestamp": [None] * count,
        "attributes": [[("k", str(n))] for n in range(count)],
        "body": bodies,
    }
    schema = arrow_schema_of(spark_schema(made.raw_columns))
    return pa.RecordBatch.from_arrays([pa.array(values[field.name], field.type) for field in schema], schema=schema)


def test_without_the_option_there_is_nothing_to_decode() -> None:
    assert DecodedColumns.from_options({"topic": "demo", "columns": "body"}) is None


def test_a_rejected_record_is_a_row_with_its_error_and_the_columns_kept() -> None:
    made = pickle.loads(pickle.dumps(columns()))
    (batch,) = made.decode(raw_batch(made, [b"1,a", b"x,b", b"3,c"]))
    assert batch.schema == arrow_schema_of(made.schema())
    assert made.schema().fields[-1].dataType == DEAD_LETTER_SCHEMA
    rows = batch.to_pylist()
    assert [(row["id"], row["name"], row["offset"], row["topic"]) for row in rows] == [
        (1, "a", 0, "demo"),
        (3, "c", 56, "demo"),
        (None, None, 28, "demo"),
    ]
    assert [row["_error"] for row in rows[:2]] == [None, None]
    assert rows[2]["_error"] == {
        "reason": "decode.csv",
        "detail": "column id: 'x' is not a valid int",
        "stage": "message",
        "topic": "demo",
        "brokerId": 1,
        "partition": 2,
        "offset": 28,
        "record": None,
        "timestamp": None,
        "raw": b"x,b",
        "attributes": [("k", "1")],
    }


def test_an_empty_batch_has_the_whole_schema() -> None:
    made = columns()
    assert [batch.schema for batch in made.decode(raw_batch(made, []))] == [arrow_schema_of(made.schema())]


def test_errors_can_be_dropped_or_end_the_query() -> None:
    dropped = columns(errors="drop")
    assert dropped.raw_columns == ("topic", "offset", "body")
    (batch,) = dropped.decode(raw_batch(dropped, [b"1,a", b"x,b"]))
    assert batch.schema.names == ["id", "name", "offset", "topic"]
    assert batch.num_rows == 1
    fail = columns(errors="fail")
    told = r"decode.csv: column id: 'x' is not a valid int\) at topic demo, brokerId 1, partition 2, offset 28"
    with pytest.raises(FormatError, match=told):
        list(fail.decode(raw_batch(fail, [b"1,a", b"x,b"])))


def test_a_large_batch_comes_in_portions_of_bounded_size() -> None:
    made = columns(columns="offset")
    batches = list(made.decode(raw_batch(made, [b"%d,%s" % (n, b"x" * 100_000) for n in range(500)])))
    assert len(batches) > 1
    assert max(batch.nbytes for batch in batches) < 20 * 1024 * 1024
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == [
        28 * n for n in range(500)
    ]


@pytest.mark.parametrize(
    ("options", "told", "hint"),
    [
        ({"decode.schema": "id INT"}, "decode.schema without the option decode", "decode=json"),
        ({**OPTIONS, "decode.columns": "ofset"}, "names 'ofset'", "did you mean offset?"),
        ({**OPTIONS, "decode.errors": "colum"}, "decode.errors = 'colum'", "did you mean column?"),
        ({**OPTIONS, "decode.schemas": "id INT"}, "has no option 'schemas'", "its options are"),
        ({**OPTIONS, "decode.schema": "Offset INT"}, "the column offset would be there twice", "another name"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, str], told: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        DecodedColumns.from_options(options)
    assert told in caught.value.message
    assert hint in str(caught.value.hint)
