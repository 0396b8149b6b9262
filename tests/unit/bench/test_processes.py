"""Client programs are bounded, and end with those who started them."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

import pytest

from bench.harness.processes import RunError, client, ours, rss_mib, run, started

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.process


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_client_gets_its_spec_and_the_last_line_is_its_result() -> None:
    text = "import json, sys; print('noise'); print(json.dumps({'got': json.loads(sys.argv[1])}))"
    assert asyncio.run(client(python(text), {"size_bytes": 7})) == {"got": {"size_bytes": 7}}


def test_a_client_that_prints_no_result_is_an_error() -> None:
    with pytest.raises(RunError, match="printed no result"):
        asyncio.run(client(python("print('hello')"), {}))


def test_a_client_that_fails_is_an_error_with_the_end_of_what_it_said() -> None:
    with pytest.raises(RunError, match="the reason"):
        asyncio.run(client(python("raise SystemExit('the reason')"), {}))


def test_a_program_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    where = tmp_path / "pid"
    text = f"import os, pathlib, time; pathlib.Path({str(where)!r}).write_text(str(os.getpid())); time.sleep(600)"
    with pytest.raises(RunError, match="did not end within"):
        asyncio.run(run(python(text), within_s=3))
    assert gone(int(where.read_text()))


def test_a_program_ends_with_the_block_that_started_it() -> None:
    async def leave() -> int:
        async with started(python("import time; print('up', flush=True); time.sleep(600)")) as process:
            assert process.stdout is not None
            await process.stdout.readline()
            assert rss_mib(process.pid) > 1
            return process.pid

    assert gone(asyncio.run(leave()))


def test_our_clients_run_with_the_python_that_runs_the_comparison() -> None:
    assert ours("ours_produce") == [sys.executable, "-m", "bench.clients.ours_produce"]
