"""What Delta would refuse of a table is tried on another one in the same schema, which is gone afterwards."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from pytubemq.pipelines.sinks.delta.table import DeltaTable

COLUMNS = StructType([StructField("n", IntegerType())])


class _Spark:
    """Takes statements, and rows that are saved; refuses a statement with a word in it."""

    def __init__(self, refuses: str = "none of them") -> None:
        self.taken: list[str] = []
        self._refuses = refuses

    def sql(self, statement: str) -> Any:
        self.taken.append(re.sub("[0-9a-f]{32}", "1", statement))
        if self._refuses in statement:
            raise ValueError(statement)
        return SimpleNamespace(collect=lambda: [SimpleNamespace(location="/warehouse/t")])

    def createDataFrame(self, rows: list[Any], columns: StructType) -> Any:
        writer: Any = SimpleNamespace(
            save=lambda path: self.taken.append(f"{len(rows)} rows of {columns.names} to {path}")
        )
        writer.format = writer.mode = lambda value: writer
        writer.options = lambda **values: writer
        return SimpleNamespace(write=writer)


def _table(spark: Any, name: str) -> DeltaTable:
    return DeltaTable(spark, path=None, name=name)


@pytest.mark.parametrize(
    ("name", "beside"), [("t", ""), ("db.t", "db."), ("c.`d.b`.`a.``b`", "c.`d.b`."), ("`a.b`.t", "`a.b`.")]
)
def test_it_lies_in_the_same_schema_whatever_names_it_has(name: str, beside: str) -> None:
    spark = _Spark()
    _table(spark, name).try_make(COLUMNS, ["n"])
    made = f"{beside}`_tubemq_probe_1`"
    assert spark.taken == [
        f"CREATE TABLE IF NOT EXISTS {made} (`n` int) USING delta PARTITIONED BY (`n`)",
        f"DESCRIBE DETAIL {made}",
        "0 rows of ['n'] to /warehouse/t",
        f"DROP TABLE IF EXISTS {made}",
    ]


def test_it_is_taken_away_also_when_delta_refuses_it() -> None:
    spark = _Spark(refuses="CREATE")
    with pytest.raises(ValueError, match="CREATE"):
        _table(spark, "t").try_make(COLUMNS, ())
    assert spark.taken[1:] == ["DROP TABLE IF EXISTS `_tubemq_probe_1`"]
