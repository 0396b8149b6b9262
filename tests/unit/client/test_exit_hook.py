"""A program that ends without closing its connection sends what it submitted, and is warned."""

from __future__ import annotations

import asyncio
import sys

import pytest

from pytubemq.testing.mock_broker import MockBroker

pytestmark = [pytest.mark.anyio, pytest.mark.process]

PROGRAM = """
import sys
from pytubemq import sync

tube = sync.connect(sys.argv[1]).__enter__()
producer = tube.producer("demo", linger_s=0.5).__enter__()
for number in range(1000):
    producer.submit(b"%d" % number)
{end}
"""


@pytest.mark.parametrize(("end", "code"), [("", 0), ("sys.exit(3)", 3), ("raise KeyError", 1)])
async def test_what_was_submitted_is_sent_at_the_end_of_the_program(end: str, code: int) -> None:
    async with MockBroker(topics={"demo": 1}) as mock:
        arguments = ("-W", "always::ResourceWarning", "-c", PROGRAM.format(end=end), mock.masters)
        program = await asyncio.create_subprocess_exec(sys.executable, *arguments, stderr=asyncio.subprocess.PIPE)
        _, said = await asyncio.wait_for(program.communicate(), 120)
        assert program.returncode == code, said
        assert mock.bodies("demo") == [b"%d" % number for number in range(1000)]
        assert b"ResourceWarning: sync.Tube" in said
        assert b"is closed now, as the program ends" in said
