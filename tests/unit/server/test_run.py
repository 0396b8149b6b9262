"""How a program that runs an event loop ends when it is told to."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, sys
from pytubemq.server.run import run_loop

async def main():
    print("ready", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        print("left in order", flush=True)

if "plain" in sys.argv:
    sys.modules["uvloop"] = None
try:
    run_loop(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.process
@pytest.mark.parametrize("loop", ["uvloop", "plain"])
@pytest.mark.parametrize("background", [False, True], ids=["", "in the background"])
def test_a_program_that_is_terminated_leaves_in_order_wherever_it_was_started(loop: str, background: bool) -> None:
    def as_a_shell_does() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN if background else signal.default_int_handler)

    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, loop], stdout=subprocess.PIPE, preexec_fn=as_a_shell_does, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert said.splitlines() == ["left in order", "interrupted"]
    assert process.returncode == 0
