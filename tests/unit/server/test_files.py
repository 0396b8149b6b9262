"""Open files: as many as allowed, and a share of them kept from connections."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.model.limits import MAX_CONNECTIONS, MAX_HTTP_CONNECTIONS, MAX_OPEN_FILES, MAX_OPEN_LOG_FILES
from pytubemq.server.compose import ROLES, Node
from pytubemq.server.files import RESERVED_FILES, shares
from pytubemq.server.sources import load_settings

if TYPE_CHECKING:
    from pathlib import Path

RAISED = """
import resource
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2000))
from pytubemq.server.files import raise_file_limit
import logging
logging.basicConfig(level="INFO")
assert raise_file_limit() == 2000
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("files", "servers", "http_servers", "given"),
    [
        (MAX_OPEN_FILES, 2, 2, (MAX_OPEN_LOG_FILES, MAX_CONNECTIONS, MAX_HTTP_CONNECTIONS)),
        (8192, 1, 1, (4032, 3776, 256)),
        (8192, 2, 2, (4032, 1760, 256)),
        (1024, 2, 2, (448, 168, 56)),
        (1024, 1, 0, (448, 448, 112)),
        (256, 1, 1, (96, 72, 24)),
        (2, 2, 2, (1, 1, 1)),
    ],
)
def test_files_are_shared_among_logs_and_servers(
    files: int, servers: int, http_servers: int, given: tuple[int, int, int]
) -> None:
    assert shares(files, servers=servers, http_servers=http_servers) == given


@given(files=st.integers(64, MAX_OPEN_FILES), servers=st.integers(1, 2), http_servers=st.integers(0, 2))
def test_all_shares_together_leave_what_is_reserved(files: int, servers: int, http_servers: int) -> None:
    given = shares(files, servers=servers, http_servers=http_servers)
    used = given.log_files + servers * given.connections + http_servers * given.http_connections
    assert files - used >= min(RESERVED_FILES, files // 4)


@pytest.mark.process
def test_the_limit_is_raised_as_far_as_it_goes() -> None:
    done = subprocess.run([sys.executable, "-c", RAISED], capture_output=True, text=True, check=True)
    assert done.stdout == "2000\n"
    assert "this process may have 2000 files open (raised from 256)" in done.stderr
    assert "this process may have only 2000 files open, so it accepts" in done.stderr


FEW_HANDLES = """
import asyncio, resource, sys, time
from pytubemq.model.ids import Address
from pytubemq.net.server.server import RpcServer
from pytubemq.observe.logs import configure
from pytubemq.server.files import mind_lack_of_handles

async def main():
    mind_lack_of_handles(asyncio.get_running_loop())
    server = RpcServer({}, offered=frozenset({1}), name="test")
    print((await server.start(Address("127.0.0.1", 0))).port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    spent_s, began_s = time.process_time(), time.monotonic()
    print("watching", flush=True)
    await asyncio.sleep(1.5)  # the time over which its share of the processor is taken
    print((time.process_time() - spent_s) / (time.monotonic() - began_s), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

configure(level="info", form="text")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
factory = None
if sys.argv[1] == "uvloop":
    import uvloop
    factory = uvloop.new_event_loop
with asyncio.Runner(loop_factory=factory) as runner:
    runner.run(main())
"""


LOOPS = [name for name in ("asyncio", "uvloop") if find_spec(name)]


@pytest.mark.process
@pytest.mark.parametrize("loop", LOOPS)
def test_a_server_without_file_handles_rests_and_recovers(loop: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FEW_HANDLES, loop],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        port = int(server.stdout.readline())
        crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
        server.stdin.write("\n")
        server.stdin.flush()
        assert server.stdout.readline() == "watching\n"
        assert float(server.stdout.readline()) < 0.5, "it spins"
        for connection in crowd:
            connection.close()
        # accepted and looked at, now that there is room: what is no frame is hung up on
        with socket.create_connection(("127.0.0.1", port), timeout=60) as late:
            late.sendall(b"no frame" * 10)
            with contextlib.suppress(ConnectionResetError):
                assert late.recv(1) == b""
        server.stdin.close()
        said = server.stderr.read()
    # uvloop may close those that wait without a word
    assert said.count("no file handle is free") in ((1,) if loop == "asyncio" else (0, 1))
    assert "Traceback" not in said


@pytest.mark.anyio
async def test_a_node_shares_what_there_is_among_its_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytubemq.server.compose.file_limit", lambda: 1024)
    keys = ("master.listen", "broker.listen", "http.listen", "broker.http_listen")
    ports = dict.fromkeys(keys, "127.0.0.1:0")
    node = Node(load_settings(None, environ={}, flags={"data": str(tmp_path), **ports}), ROLES["all"])
    await node.start()
    try:
        assert node.master is not None
        assert node.broker is not None
        share = shares(1024, servers=2, http_servers=2)
        assert node.master.settings.max_connections == node.broker.settings.max_connections == share.connections
        assert node.broker.settings.store.max_open_files == share.log_files
    finally:
        await node.close()
