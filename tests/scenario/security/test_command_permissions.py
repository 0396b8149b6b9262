"""Commands that speak the protocol, as users with exactly the permissions that their rows name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.security.permissions import ResourceKind
from scripts.docs.cli_permissions import COMMANDS, permissions_of
from tests.scenario.security.command_line import command
from tests.scenario.security.secured import address_of, cluster, user

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio
NAMES = {ResourceKind.TOPIC: "orders", ResourceKind.GROUP: "readers"}


async def test_produce_and_consume_need_what_their_rows_name(tmp_path: Path) -> None:
    (produce,), (alone, joined) = COMMANDS["produce"], COMMANDS["consume"]
    runs = (
        ("writer", produce, ("produce", "orders", "hello")),
        ("scanner", alone, ("consume", "orders", "-n", "1", "--from", "earliest")),
        ("member", joined, ("consume", "orders", "--group", "readers", "-n", "1", "--from", "earliest")),
    )
    async with cluster(tmp_path / "data") as node:
        for name, use, arguments in runs:
            granted = [f"{operation} {kind} {NAMES[kind]}" for operation, kind in permissions_of(use)]
            secret = tmp_path / name
            secret.write_text((await user(node, name, *granted)).secret.reveal())
            secret.chmod(0o600)
            environ = {"PYTUBEMQ_USER": name, "PYTUBEMQ_SECRET_FILE": str(secret)}
            ran = await command(*arguments, "--master", address_of(node), environ=environ)
            assert ran.code == 0, (name, granted, ran)
            assert name == "writer" or "hello" in ran.out, (name, ran)
