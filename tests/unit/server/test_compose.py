"""A node: what starts is stopped again, in order, within bounds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytubemq.server.compose as compose
from pytubemq.errors import ConfigError, DirectoryLockedError
from pytubemq.server.compose import ROLES, Node, make_directory
from pytubemq.server.sources import load_settings

if TYPE_CHECKING:
    from pytubemq.server.settings import Settings

ANY = dict.fromkeys(("master.listen", "broker.listen", "http.listen", "broker.http_listen"), "127.0.0.1:0")


def settings(tmp_path: Path, **more: object) -> Settings:
    flags = {**ANY, "data": str(tmp_path), **{key.replace("__", "."): value for key, value in more.items()}}
    return load_settings(None, environ={}, flags=flags)


def test_all_roles_start_serve_and_stop(tmp_path: Path) -> None:
    async def main() -> None:
        node = Node(settings(tmp_path), ROLES["all"])
        endpoints = await node.start()
        assert set(endpoints.as_dict()) == {"master", "broker", "http", "broker_http"}
        assert node.master is not None
        assert [broker.state for broker in await node.master.brokers()] == ["online"]
        assert await node.close()
        assert await node.close(), "a second time changes nothing"

    asyncio.run(main())


def test_a_failed_start_stops_what_it_had_started(tmp_path: Path) -> None:
    async def main() -> None:
        first = Node(settings(tmp_path / "a"), ROLES["all"])
        endpoints = await first.start()
        second = Node(settings(tmp_path / "b", broker__listen=endpoints.broker), ROLES["all"])
        with pytest.raises(ConfigError, match="in use"):
            await second.start()
        # the directory is free again: its Master has stopped
        third = Node(settings(tmp_path / "b"), ROLES["master"])
        await third.start()
        await third.close()
        await first.close()

    asyncio.run(main())


def test_one_directory_one_master(tmp_path: Path) -> None:
    async def main() -> None:
        first = Node(settings(tmp_path), ROLES["master"])
        await first.start()
        with pytest.raises(DirectoryLockedError):
            await Node(settings(tmp_path), ROLES["master"]).start()
        await first.close()

    asyncio.run(main())


def test_a_part_that_hangs_does_not_hold_up_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compose, "STOP_TIMEOUT_S", 0.2)
    stopped: list[str] = []

    async def main() -> bool:
        node = Node(settings(tmp_path), ROLES["all"])

        async def first() -> None:
            stopped.append("first")

        async def broken() -> None:
            raise RuntimeError("broken")

        node._closing = [("first", first), ("hanging", asyncio.Event().wait), ("broken", broken)]  # type: ignore[list-item]
        return await node.close()

    assert asyncio.run(main()) is False
    assert stopped == ["first"]


def test_what_lies_in_the_way_of_a_directory_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(ConfigError, match=f"^the data directory {file} is a file\n"):
        make_directory(file)
    with pytest.raises(ConfigError, match=f"{file / 'data'} cannot be made: {file} is a file\n"):
        make_directory(file / "data")
    with pytest.raises(ConfigError, match="/proc/nowhere/master cannot be made: /proc takes no directories\n"):
        make_directory(Path("/proc/nowhere/master"))
