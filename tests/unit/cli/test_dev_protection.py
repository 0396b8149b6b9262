"""What `pytubemq dev` says about who may use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytubemq.cli.commands.dev import _protection
from pytubemq.server.compose import Endpoints
from pytubemq.server.dev import DevReady


@pytest.mark.parametrize(
    ("http", "insecure", "asks_who", "said"),
    [
        ("http://127.0.0.1:1", False, False, "loopback only, no login"),
        ("http://127.0.0.1:1", False, True, "loopback only"),
        ("http://127.0.0.1:1", True, False, "insecure = true, no TLS and no login"),
        ("http://127.0.0.1:1", True, True, "insecure = true, no TLS"),
        ("https://127.0.0.1:1", True, False, "insecure = true, no login"),
        ("https://127.0.0.1:1", True, True, "insecure = true"),
    ],
)
def test_it_names_what_is_missing_and_nothing_that_is_there(
    http: str, insecure: bool, asks_who: bool, said: str
) -> None:
    ready = DevReady(Endpoints(http=http), Path(), "demo", 1, "dev", True, insecure=insecure, asks_who=asks_who)
    assert _protection(ready) == said
