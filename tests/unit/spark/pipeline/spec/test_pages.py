"""The reference pages are what the tables say, and what the pages show has no fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytubemq.spark.pipeline.spec import load_checked
from pytubemq.spark.pipeline.spec.pages import codes_table, guarantees_table, keys_page, put

DOCS = Path(__file__).parents[5] / "docs"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("pipeline-file.md", {"keys": keys_page(), "codes": codes_table()}),
        ("pipeline-guarantees.md", {"guarantees": guarantees_table()}),
    ],
)
def test_the_tables_of_a_page_are_current(name: str, parts: dict[str, str]) -> None:
    page = (DOCS / "reference" / name).read_text("utf-8")
    assert put(page, parts) == page, "run scripts/write_pipeline_pages.py"


def test_every_whole_pipeline_on_the_reference_page_has_no_fault(tmp_path: Path) -> None:
    text = (DOCS / "reference/pipeline-file.md").read_text("utf-8")
    blocks = [block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if block.startswith("name:")]
    assert blocks
    for block in blocks:
        file = tmp_path / "shown.yaml"
        file.write_text(block, "utf-8")
        assert load_checked(file).faults == ()


def test_a_page_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for keys"):
        put("no marks", {"keys": "x"})
