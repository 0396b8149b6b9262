"""The fast run (`--fast`): the tests that start no process, no Spark session and no JVM, but for the slowest few.

The invariant: tests that do are marked, and left out; a test that starts a process without being marked fails.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

LEFT_OUT: Final = ("process", "slow", "spark", "scenario", "interop")
"""Markers of tests that a fast run leaves out."""
_STARTS: Final = frozenset(
    {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.exec", "os.system", "pty.spawn"}
)
"""Audit events of a process that is started."""


class FastRun:
    """A plugin that leaves out marked tests and catches those that are not marked and should be."""

    def __init__(self) -> None:
        self._watching = False
        sys.addaudithook(self._refuse)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the marked tests."""
        left_out = [item for item in items if any(item.get_closest_marker(name) for name in LEFT_OUT)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Watch for processes while a test and its fixtures run."""
        self._watching = True
        try:
            return (yield)
        finally:
            self._watching = False

    def _refuse(self, event: str, args: tuple[Any, ...]) -> None:
        if self._watching and event in _STARTS:
            raise AssertionError(f"a test that starts a process ({event}) needs @pytest.mark.process")
