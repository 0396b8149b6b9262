"""The examples of the client's documentation run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytubemq.net.iothread import IoThread
from pytubemq.testing.mock_broker import MockBroker

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(name: str) -> list[str]:
    """The Python blocks of a page."""
    return BLOCK.findall((DOCS / name).read_text(encoding="utf-8"))


def run(code: str, master: str) -> str:
    """A block in a process of its own, against a cluster of ours."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code.replace("127.0.0.1:8715", master)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.process
def test_the_tutorial_runs_from_top_to_bottom() -> None:
    io = IoThread(name="mock")

    async def start() -> MockBroker:
        made = MockBroker(topics={"demo": 2})
        await made.start()
        return made

    mock = io.run(start())
    try:
        send, submit, receive, asynchronous, read = blocks("tutorial/first-messages.md")
        assert run(send, mock.masters).startswith("1:demo:")
        assert run(submit, mock.masters) == "2 partitions\n"
        assert run(receive, mock.masters) == "10001 messages from 2 partitions\n"
        assert run(receive, mock.masters) == "0 messages from 2 partitions\n"
        assert "b'hello' {'lang': 'en'} greeting" in run(asynchronous, mock.masters)
        assert sum(int(line.split()[1]) for line in run(read, mock.masters).splitlines()) == 10_101
    finally:
        io.run(mock.stop())
        io.close()


@pytest.mark.process
@pytest.mark.parametrize("code", blocks("reference/client.md"))
def test_the_reference_runs(code: str) -> None:
    run(code, "127.0.0.1:8715")
