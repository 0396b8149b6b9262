"""The reference page says what the code does."""

from __future__ import annotations

from pathlib import Path

from pytubemq.spark.sink.columns import TAKES
from pytubemq.spark.sink.identity import NAMES
from pytubemq.spark.sink.options_page import ATTRIBUTE_DOCS, COLUMN_DOCS, page

PAGE = Path(__file__).parents[4] / "docs/reference/spark-sink.md"


def test_the_page_is_as_the_tables_are() -> None:
    assert PAGE.read_text("utf-8") == page(), "run scripts/write_spark_pages.py"


def test_every_column_and_attribute_is_described() -> None:
    assert set(COLUMN_DOCS) == set(TAKES)
    assert set(ATTRIBUTE_DOCS) == NAMES
