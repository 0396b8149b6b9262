"""Where a run of the demo leaves what it made."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pytubemq.demo.run import page_path

if TYPE_CHECKING:
    import pytest


def test_each_run_without_a_directory_has_a_page_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pages = [page_path(None, Path("work")) for _ in range(2)]
    assert pages[0] != pages[1]
    for page in pages:
        assert page.name == "report.html"
        assert page.parent.parent == tmp_path
        assert page.parent.stat().st_mode & 0o777 == 0o700


def test_the_page_of_a_run_with_a_directory_is_in_it(tmp_path: Path) -> None:
    assert page_path(tmp_path, tmp_path / "run-1") == tmp_path / "run-1" / "report.html"
