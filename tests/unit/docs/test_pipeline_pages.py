"""The reference pages are what the tables say, and what the pages show has no fault."""

from __future__ import annotations

import re
from pathlib import Path

from pytubemq.pipelines import load_checked

DOCS = Path(__file__).parents[3] / "docs"


def test_every_whole_pipeline_on_the_reference_page_has_no_fault(tmp_path: Path) -> None:
    text = (DOCS / "reference/pipeline-file.md").read_text("utf-8")
    blocks = [block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if block.startswith("name:")]
    assert blocks
    for block in blocks:
        file = tmp_path / "shown.yaml"
        file.write_text(block, "utf-8")
        assert load_checked(file).faults == ()
