"""The pages on decoding: written from the table, with an example that runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytubemq.spark.decode.page import page

if TYPE_CHECKING:
    import pytest

DOCS = Path(__file__).parents[4] / "docs"


def test_the_page_of_formats_is_as_the_table_says() -> None:
    written = (DOCS / "reference" / "decode-formats.md").read_text("utf-8")
    assert written == page(), "write it anew with scripts/write_spark_pages.py"


def test_the_example_without_spark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "how-to" / "decode.md").read_text("utf-8"), re.DOTALL)
    (example,) = [block for block in blocks if "pyarrow" in block]
    exec(compile(example, "decode.md", "exec"), {})
    assert capsys.readouterr().out.startswith("0 ['no InLongMsg: ")
