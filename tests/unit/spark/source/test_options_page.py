"""The reference page says what the tables say."""

from __future__ import annotations

import re
from pathlib import Path

from pytubemq.spark.source.options_page import COLUMN_DOCS, page
from pytubemq.spark.source.schema import ALL_COLUMNS, spark_schema

PAGE = Path(__file__).parents[4] / "docs/reference/spark-source.md"


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run scripts/write_spark_pages.py"


def test_every_column_is_described_with_the_type_that_it_has() -> None:
    assert tuple(COLUMN_DOCS) == ALL_COLUMNS
    for field in spark_schema(ALL_COLUMNS):
        assert COLUMN_DOCS[field.name][0] == field.dataType.simpleString()


def test_the_links_of_the_page_lead_somewhere() -> None:
    for link in re.findall(r"\]\((\S+?)\)", page()):
        assert (PAGE.parent / link).exists()
