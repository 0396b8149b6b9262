"""What a peer put into a name is shown, and not obeyed by the terminal."""

from __future__ import annotations

import csv
import io
import json

import pytest

from pytubemq.cli.failures import show
from pytubemq.cli.options import GlobalOptions
from pytubemq.cli.output.output import emit_object, emit_rows

HOSTILE = "g\n\x1b[2J\x9b2J\u202e\u2028\ud800"
ROWS = [{"group": HOSTILE, "members": 2, "topics": [HOSTILE], "more": {"x": HOSTILE}}]
COLUMNS = ["group", "members", "topics", "more"]


@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv", "name"])
@pytest.mark.parametrize("kind", ["rows", "object"])
def test_every_form_is_plain(form: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = GlobalOptions()
    options.output = form
    if kind == "rows":
        emit_rows(options, ROWS, COLUMNS, name="group")
    else:
        emit_object(options, ROWS[0], name="group")
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.split("\n"))
    if form in {"json", "jsonl"}:
        found = json.loads(out)
        assert (found if isinstance(found, dict) else found[0]) == ROWS[0]
    if form == "csv":
        assert len(list(csv.reader(io.StringIO(out)))) == 2


@pytest.mark.parametrize("form", [None, "json"])
def test_so_is_a_failure_and_what_is_said(form: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    options = GlobalOptions()
    options.output = form
    show({"code": 400, "message": f"no group {HOSTILE}", "why": HOSTILE, "try": HOSTILE}, options)
    options.say(f"waiting for {HOSTILE}")
    err = capsys.readouterr().err
    assert "no group g" in err
    assert all(line.isprintable() for line in err.split("\n"))
