"""Commands run in this process, with a home of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytubemq.cli.main import run
from tests.unit.cli.fake_api import FakeApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def tube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs one command line; returns exit code, standard output and standard error."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PYTUBEMQ_PROFILE", raising=False)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Ran:
        code = run(arguments)
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return call


@pytest.fixture
def api() -> Iterator[FakeApi]:
    server = FakeApi()
    yield server
    server.close()
