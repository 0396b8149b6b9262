"""Open files: as many as allowed, and a share of them kept from connections."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytubemq.model.limits import MAX_CONNECTIONS, MAX_OPEN_FILES
from pytubemq.server.compose import ROLES, Node
from pytubemq.server.files import RESERVED_FILES, connections_within
from pytubemq.server.sources import load_settings

if TYPE_CHECKING:
    from pathlib import Path

RAISED = """
import resource
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2000))
from pytubemq.server.files import raise_file_limit
assert raise_file_limit() == 2000
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("files", "servers", "connections"),
    [
        (MAX_OPEN_FILES, 1, MAX_CONNECTIONS),
        (1024, 1, 1024 - RESERVED_FILES),
        (1024, 2, (1024 - RESERVED_FILES) // 2),
        (256, 1, 64),
        (2, 2, 1),
    ],
)
def test_connections_leave_files_to_the_storage(files: int, servers: int, connections: int) -> None:
    assert connections_within(files, servers=servers) == connections


def test_the_limit_is_raised_as_far_as_it_goes() -> None:
    done = subprocess.run([sys.executable, "-c", RAISED], capture_output=True, text=True, check=True)
    assert done.stdout == "2000\n"


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
        assert node.master.settings.max_connections == connections_within(1024, servers=2)
        assert node.broker.settings.max_connections == connections_within(1024, servers=2)
    finally:
        await node.close()
