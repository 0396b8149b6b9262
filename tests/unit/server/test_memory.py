"""Freed memory is kept where the C library can be told to."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

from pytubemq.server import memory

COUNT_FAULTS = """
import resource, sys
from pytubemq.server.memory import keep_freed_memory
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
    assert memory.keep_freed_memory() is False
    monkeypatch.setattr(sys, "platform", "win32")
    assert memory.keep_freed_memory() is False
