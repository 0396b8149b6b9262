"""The reference page says what the code does."""

from __future__ import annotations

from pytubemq.spark.sink.columns import TAKES
from pytubemq.spark.sink.identity import NAMES
from scripts.docs.spark_sink import ATTRIBUTE_DOCS, COLUMN_DOCS


def test_every_column_and_attribute_is_described() -> None:
    assert set(COLUMN_DOCS) == set(TAKES)
    assert set(ATTRIBUTE_DOCS) == NAMES
