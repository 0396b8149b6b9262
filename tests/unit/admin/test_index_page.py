"""Pages for a browser."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from pytubemq.admin.broker_api.table import BrokerTable
from pytubemq.admin.index_page import Entry, render
from pytubemq.admin.webapi.methods_page import is_visit, method_entries
from pytubemq.admin.webapi.table import master_table


def request(*, method: str = "GET", query: bytes = b"", accept: str = "text/html,*/*;q=0.8") -> Request:
    headers = [(b"accept", accept.encode())]
    return Request({"type": "http", "method": method, "path": "/x", "query_string": query, "headers": headers})


def test_whatever_is_shown_is_escaped() -> None:
    evil = "<script>'\"&"
    page = render(evil, {evil: [Entry(evil, evil, evil)]})
    assert "<script" not in page
    assert page.count("&lt;script&gt;&#x27;&quot;&amp;") == 6


def test_only_what_changes_nothing_and_needs_nothing_is_a_link() -> None:
    for path, table in (("/broker.htm", BrokerTable()), ("/webapi.htm", master_table())):
        entries = {entry.name: entry for entry in method_entries(path, table)}
        assert set(entries) == {method.name for method in table.methods}
        for method in table.methods:
            needs = method.modify or any(param.required for param in method.params)
            assert entries[method.name].href == (None if needs else f"{path}?method={method.name}")


@pytest.mark.parametrize(
    ("asked", "visit"),
    [
        (request(), True),
        (request(accept="*/*"), False),
        (request(accept="application/json"), False),
        (request(query=b"method=admin_query_group"), False),
        (request(method="POST"), False),
    ],
)
def test_a_program_is_told_from_a_browser(asked: Request, visit: bool) -> None:
    assert is_visit(asked) is visit
