#!/usr/bin/env python3
"""Write the tables of docs/reference/metrics.md from the figures of the servers and of the Spark listener."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from pytubemq.admin.metrics_page import TABLES, put
from pytubemq.spark.observe.metrics import LAG_METRICS

PAGE = Path(__file__).parents[1] / "docs/reference/metrics.md"

if __name__ == "__main__":
    PAGE.write_text(put(PAGE.read_text("utf-8"), {**TABLES, "spark": LAG_METRICS}), "utf-8")
