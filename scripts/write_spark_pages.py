#!/usr/bin/env python3
"""Write the reference pages of the Spark source and sink from their tables: `python scripts/write_spark_pages.py`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from pytubemq.spark.decode import page as decode_page
from pytubemq.spark.sink import options_page as sink_page
from pytubemq.spark.source import options_page as source_page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "docs/reference/spark-source.md": source_page.page,
    "docs/reference/spark-sink.md": sink_page.page,
    "docs/reference/decode-formats.md": decode_page.page,
}

if __name__ == "__main__":
    for path, page in PAGES.items():
        (ROOT / path).write_text(page(), "utf-8")
