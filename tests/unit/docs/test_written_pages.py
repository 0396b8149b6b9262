"""What the documentation takes from the code is current, and only its tables are written."""

from __future__ import annotations

import pytest

from scripts.docs.markdown import cell, put, table
from scripts.docs.write_pages import ROOT, written

FILES = {path.relative_to(ROOT).as_posix(): text for path, text in written()}


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_what_the_code_says(name: str) -> None:
    assert (ROOT / name).read_text("utf-8") == FILES[name], "run scripts/docs/write"


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    page = "before\n<!-- one -->\nold\n<!-- end -->\nbetween\n<!-- two -->\n<!-- end -->\nafter\n"
    done = put(page, {"one": "1", "two": "2"})
    assert done == ("before\n<!-- one -->\n\n1\n\n<!-- end -->\nbetween\n<!-- two -->\n\n2\n\n<!-- end -->\nafter\n")
    assert put(done, {"one": "1"}) == done


@pytest.mark.parametrize("page", ["", "<!-- keys -->\n", "<!-- end -->"])
def test_a_page_without_a_place_for_a_table_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="no place for keys"):
        put(page, {"keys": "x"})


def test_a_table_has_a_row_for_each() -> None:
    assert table(("a", "b"), [("1", cell("x|y"))]) == "| a | b |\n|---|---|\n| 1 | x\\|y |"
