#!/usr/bin/env python3
"""Write the tables of docs/reference/webapi.md from the methods of the Master."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from pytubemq.admin.webapi.reference import put
from pytubemq.admin.webapi.table import master_table

PAGE = Path(__file__).parents[1] / "docs/reference/webapi.md"

if __name__ == "__main__":
    PAGE.write_text(put(PAGE.read_text("utf-8"), master_table()), "utf-8")
