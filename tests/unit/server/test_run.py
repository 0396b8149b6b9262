"""A program that runs an event loop: how it ends when it is told to, and what it does with freed memory."""

from __future__ import annotations

import ctypes
import platform
import signal
import subprocess
import sys

import pytest

from pytubemq.server import run

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


COUNT_FAULTS = """
import resource, sys
from pytubemq.server.run import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def use():
    held = [bytes(2_000_000) + b"x" for _ in range(4)]
use()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    use()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> int:
    done = subprocess.run([sys.executable, "-c", COUNT_FAULTS, mode], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.process
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_buffers_of_megabytes_use_the_same_memory_again() -> None:
    kept, given_back = faults("keep"), faults("default")
    assert kept < given_back / 4


def test_another_c_library_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    assert run.keep_freed_memory() is False
    monkeypatch.setattr(sys, "platform", "win32")
    assert run.keep_freed_memory() is False
