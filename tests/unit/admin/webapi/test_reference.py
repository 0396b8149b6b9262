"""The page about the methods says what the methods say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytubemq.admin.webapi.params import OPS_ADD, OPS_QUERY, OPS_UPD, PROPS, CallError
from pytubemq.admin.webapi.reference import put
from pytubemq.admin.webapi.table import NOT_OFFERED, master_table

PAGE = (Path(__file__).parents[4] / "docs/reference/webapi.md").read_text("utf-8")


def test_the_tables_are_those_of_the_code() -> None:
    assert put(PAGE, master_table()) == PAGE, "run scripts/write_webapi_page.py"


def test_the_words_for_parameters_that_go_together() -> None:
    for word, params in {"add": OPS_ADD, "change": OPS_UPD, "stamp": OPS_QUERY, "properties": PROPS}.items():
        row = re.search(rf"^\| \*{word}\* \| (.*) \|$", PAGE, re.MULTILINE)
        assert row is not None
        assert re.findall(r"`(\w+)`(\\\*)?", row[1]) == [
            (param.name, "\\*" if param.required else "") for param in params
        ]


def test_every_method_is_told_once() -> None:
    names = [name for method in master_table().methods for name in (method.name, *method.aliases)]
    for name in (*names, *NOT_OFFERED):
        assert len(re.findall(rf"^\|[^|]*`{name}`", PAGE, re.MULTILINE)) == 1, name


@pytest.mark.parametrize("name", NOT_OFFERED)
def test_what_is_not_offered_says_why(name: str) -> None:
    with pytest.raises(CallError, match=f"{name} is not offered: "):
        master_table().find(name)
