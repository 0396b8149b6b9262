"""The how-to about records in ZooKeeper: moved, led by one Master, and by another one when that is killed."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.store_pages import Master, blocks, run

if TYPE_CHECKING:
    from tests.support.zookeeper.server import ZooKeeper

pytestmark = pytest.mark.scenario

PAGE = Path(__file__).parents[3] / "docs/how-to/keep-metadata-in-zookeeper.md"
PASSWORD = "a-long-password"


def test_the_page_moves_a_masters_records_and_a_standby_takes_over(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    there = f"{zookeeper.address}{zookeeper.new_root()}"
    (commands,) = (text.replace("zk1.example:2181,zk2.example:2181/pytubemq", there) for text in blocks(PAGE, ""))
    (settings,) = (text.replace("zk1.example:2181,zk2.example:2181/pytubemq", there) for text in blocks(PAGE, "toml"))
    with ExitStack() as stack:
        first = Master(tmp_path / "first")
        stack.callback(lambda: first.end(signal.SIGKILL))
        first.start()
        first.until_it_serves()
        run(first.home, "pytubemq", "cluster", "alter", "--retention", "200h", "--http", f"http://{first.page}")
        before = first.retention()
        first.end(signal.SIGTERM)
        first.keep_password(PASSWORD)
        dry, copied = (line.split() for line in commands.splitlines())
        assert "nothing was changed" in run(first.home, *dry).stderr
        assert "found them equal" in run(first.home, *copied).stderr
        first.configure(settings)
        first.start(lease_s=5)
        first.until_it_serves()
        assert first.retention() == before
        second = Master(tmp_path / "second", settings)
        second.keep_password(PASSWORD)
        stack.callback(lambda: second.end(signal.SIGKILL))
        second.start()
        second.until_it_says(f"{first.address} leads with epoch")
        first.end(signal.SIGKILL)  # its lease ends by itself
        second.until_it_serves()
        assert second.retention() == before
        assert PASSWORD not in first.log + second.log
