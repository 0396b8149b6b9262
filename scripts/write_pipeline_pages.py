#!/usr/bin/env python3
"""Write the tables of docs/reference/pipeline-file.md and docs/reference/pipeline-guarantees.md from the code."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from pytubemq.spark.pipeline.spec.pages import codes_table, guarantees_table, keys_page, put

REFERENCE = Path(__file__).parents[1] / "docs/reference"
PAGES = {
    "pipeline-file.md": {"keys": keys_page, "codes": codes_table},
    "pipeline-guarantees.md": {"guarantees": guarantees_table},
}

if __name__ == "__main__":
    for name, parts in PAGES.items():
        page = REFERENCE / name
        page.write_text(put(page.read_text("utf-8"), {part: make() for part, make in parts.items()}), "utf-8")
