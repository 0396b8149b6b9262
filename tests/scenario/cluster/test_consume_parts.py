"""`pytubemq consume` without a group where a part of the topic cannot be read that way."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ExitCode
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.extensions import OURS, Capability

if TYPE_CHECKING:
    from .conftest import CommandLine

pytestmark = [pytest.mark.anyio, pytest.mark.scenario]

QUICK = ("--timeout", "0.5")


async def two_brokers(stack: AsyncExitStack, *, original: bool = False) -> tuple[MockBroker, MockBroker]:
    """A Master that names two Brokers of the topic; the message is at the second, the first may be the original's."""
    one = MockBroker(topics={"t": 2}, broker_id=1, capabilities=Capability(0) if original else OURS)
    two = MockBroker(topics={"t": 1}, broker_id=2)
    two.peers.append(one)
    await stack.enter_async_context(one)
    await stack.enter_async_context(two)
    two.store("t", b"here")
    return one, two


async def test_a_broker_of_the_original_is_named_with_what_to_type(tube: CommandLine) -> None:
    async with AsyncExitStack() as stack:
        _, two = await two_brokers(stack, original=True)
        found = await asyncio.to_thread(tube, "consume", "t", "--master", two.masters, *QUICK)
        assert (found.returncode, found.stdout) == (ExitCode.BAD_CONFIG, b"here\n"), "the rest is read"
        said = found.stderr.decode()
        assert "the Broker 1 at" in said
        assert "it is not a pytubemq Broker" in said
        assert "--group NAME" in said
        assert "tube." not in said
        enough = await asyncio.to_thread(tube, "consume", "t", "-n", "1", "--tail", "--from", "earliest", "--master",
                                         two.masters, *QUICK)  # fmt: skip
        assert (enough.returncode, enough.stdout) == (ExitCode.DONE, b"here\n")


async def test_a_broker_that_is_away_is_passed_over_and_said(tube: CommandLine) -> None:
    async with AsyncExitStack() as stack:
        one, two = await two_brokers(stack)
        await one.stop_broker()
        found = await asyncio.to_thread(tube, "consume", "t", "--master", two.masters, *QUICK)
        assert (found.returncode, found.stdout) == (ExitCode.UNREACHABLE, b"here\n")
        assert found.stderr.count(b"is away") == 1
        assert b"Broker 1" in found.stderr
