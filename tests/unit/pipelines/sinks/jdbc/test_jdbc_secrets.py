"""What a database's refusal shows: neither the password of its URL nor one that the driver repeats."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.sinks.jdbc.database import Database


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("jdbc:postgresql://h:5432/d?user=me&password=hunter2", "jdbc:postgresql://h:5432/d"),
        ("jdbc:mysql://me:hunter2@h/d", "jdbc:mysql://me:***@h/d"),
        ("jdbc:oracle:thin:scott/tiger@//h:1521/s", "jdbc:oracle:thin:scott/***@//h:1521/s"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert Database(None, url, {}).shown == shown


def test_what_the_driver_says_is_shown_without_what_references_became(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.pipelines.file.secrets._given_out", {})
    monkeypatch.setenv("KEY", "hunter-2")
    password = resolve("${env:KEY}")
    why = SimpleNamespace(getMessage=lambda: f"no user with {password}", getSQLState=lambda: None)
    refused = Database(None, "jdbc:postgresql://h/d", {})._refused(why)
    assert refused.message == "the database at jdbc:postgresql://h/d refused: no user with ***"
