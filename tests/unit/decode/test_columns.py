"""Schemas as Spark writes them, read without Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types

from pytubemq.decode.arrow_types import arrow_schema_of
from pytubemq.decode.columns import columns_of, parse_columns
from pytubemq.errors import ConfigError
from pytubemq.spark.spark_types import arrow_schema_of as arrow_schema_of_spark
from pytubemq.spark.spark_types import spark_schema_of

SIMPLE = [
    types.BooleanType(),
    types.ByteType(),
    types.ShortType(),
    types.IntegerType(),
    types.LongType(),
    types.FloatType(),
    types.DoubleType(),
    types.StringType(),
    types.BinaryType(),
    types.DateType(),
    types.TimestampType(),
    types.TimestampNTZType(),
]
NAMES = st.text("abcdefghij_`$ .:,<>()", min_size=1, max_size=8)


def structs(kinds: st.SearchStrategy[types.DataType]) -> st.SearchStrategy[types.StructType]:
    fields = st.lists(st.tuples(NAMES, kinds), min_size=1, max_size=4, unique_by=lambda pair: pair[0].lower())
    return fields.map(lambda pairs: types.StructType([types.StructField(name, kind) for name, kind in pairs]))


DECIMALS = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: types.DecimalType(p, s)))
KINDS = st.recursive(
    st.sampled_from(SIMPLE) | DECIMALS,
    lambda kinds: (
        kinds.map(types.ArrayType)
        | st.tuples(st.sampled_from(SIMPLE), kinds).map(lambda pair: types.MapType(*pair))
        | structs(kinds)
    ),
    max_leaves=6,
)


def written(kind: types.DataType) -> str:
    match kind:
        case types.ArrayType():
            return f"ARRAY<{written(kind.elementType)}>"
        case types.MapType():
            return f"MAP<{written(kind.keyType)}, {written(kind.valueType)}>"
        case types.StructType():
            return f"STRUCT<{', '.join(f'{quoted(each.name)}: {written(each.dataType)}' for each in kind)}>"
        case _:
            return kind.simpleString().upper()


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@given(structs(KINDS))
def test_every_schema_that_spark_writes_is_read_as_spark_has_it(schema: types.StructType) -> None:
    text = ", ".join(f"{quoted(field.name)} {written(field.dataType)}" for field in schema)
    assert spark_schema_of(parse_columns(text)) == schema
    assert columns_of(schema) == parse_columns(text)


@given(structs(KINDS))
def test_the_arrow_schema_is_the_one_that_spark_derives(schema: types.StructType) -> None:
    columns = columns_of(schema)
    assert columns
    assert arrow_schema_of(columns).equals(arrow_schema_of_spark(schema), check_metadata=True)


@pytest.mark.parametrize(
    "kind", [types.NullType(), types.VariantType(), types.DayTimeIntervalType(), types.ArrayType(types.NullType())]
)
def test_a_type_that_no_format_decodes_is_refused(kind: types.DataType) -> None:
    with pytest.raises(ConfigError, match="no format makes columns of type") as raised:
        columns_of(types.StructType([types.StructField("a", kind)]))
    assert raised.value.hint == "use another type, or a string"


def test_texts_of_bounded_length_in_a_schema_of_spark_are_strings() -> None:
    schema = types.StructType([types.StructField("a", types.CharType(3)), types.StructField("b", types.VarcharType(9))])
    assert columns_of(schema) == parse_columns("a STRING, b STRING")


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_a_hint(text: str) -> None:
    try:
        assert parse_columns(text)
    except ConfigError as error:
        told = error.hint
    else:
        told = "read"
    assert told


def test_not_null_and_comments_are_read() -> None:
    first, second = parse_columns("id BIGINT NOT NULL COMMENT 'the key, it\\'s one', name varchar(20)")
    assert (first.nullable, second.nullable) == (False, True)
    assert str(second.type) == "string"


def test_a_whole_struct_is_taken_for_its_fields() -> None:
    assert parse_columns("struct<a:int,b:array<string>>") == parse_columns("a INT, b ARRAY<STRING>")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id BIGNIT", "did you mean BIGINT"),
        ("id", "expected a type, found its end"),
        ("id INT,", "expected a column's name, found its end"),
        ("id INT name STRING", "expected a comma or the end, found 'name' at character"),
        ("id DECIMAL(40,2)", "a precision from 1 to 38"),
        ("id ARRAY<INT", "expected >"),
        ("a INT, A STRING", "two columns 'A'"),
        ("a " + "ARRAY<" * 100, "nested more than 32 deep"),
    ],
)
def test_a_wrong_schema_is_told_where(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told.replace("(", r"\(")):
        parse_columns(text)
