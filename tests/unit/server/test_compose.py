"""A node: what starts is stopped again, in order, within bounds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pytubemq.server.compose as compose
from pytubemq.errors import ConfigError, DirectoryLockedError
from pytubemq.server.compose import ROLES, Node
from pytubemq.server.files import make_directory
from pytubemq.server.sources import load_settings
from tests.support.ports import free_port

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


@pytest.mark.parametrize("named", [False, True])
def test_the_masters_ports_open_last(tmp_path: Path, named: bool) -> None:
    """Whoever sees one of them open finds a Broker that serves, also where `broker.masters` names this Master."""
    closed: list[str] = []

    async def before_open(node: Node) -> None:
        assert node.master is not None
        assert [broker.state for broker in await node.master.brokers()] == ["online"]
        await node.master.create_topic("t", 2)
        for text in (node.endpoints.master, node.endpoints.http):
            assert text is not None
            host, _, port = text.removeprefix("http://").rpartition(":")
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(host, int(port))
            closed.append(text)

    async def main() -> None:
        own = f"127.0.0.1:{free_port()}"
        more: dict[str, object] = {"master__listen": own, "broker__masters": [own]} if named else {}
        node = Node(settings(tmp_path, **more), ROLES["all"], before_open=before_open)
        endpoints = await node.start()
        assert closed == [endpoints.master, endpoints.http]
        for text in (endpoints.master, endpoints.http):
            assert text is not None
            host, _, port = text.removeprefix("http://").rpartition(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
        assert await node.close()

    asyncio.run(main())


def test_topics_of_the_last_run_are_served_before_the_ports_open(tmp_path: Path) -> None:
    ready: list[bool] = []

    async def before_open(node: Node) -> None:
        assert node.master is not None
        ready.extend(place.ready for place in (await node.master.topic("t")).places)

    async def main() -> None:
        node = Node(settings(tmp_path), ROLES["all"])
        await node.start()
        assert node.master is not None
        await node.master.create_topic("t", 2)
        await node.close()
        node = Node(settings(tmp_path), ROLES["all"], before_open=before_open)
        await node.start()
        await node.close()

    asyncio.run(main())
    assert ready == [True]


def test_a_broker_of_other_masters_leaves_the_ports_of_this_one_open_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        other = Node(settings(tmp_path / "a"), ROLES["master"])
        where = await other.start()
        node = Node(settings(tmp_path / "b", broker__masters=[where.master]), ROLES["all"])
        await node.start()
        assert node.master is not None
        assert other.master is not None
        assert [broker.state for broker in await other.master.brokers()] == ["online"]
        assert await node.master.brokers() == []
        await node.close()
        await other.close()

    asyncio.run(main())


def test_a_broker_that_the_master_refuses_does_not_keep_the_ports_closed(tmp_path: Path) -> None:
    async def main() -> None:
        node = Node(settings(tmp_path, master__auto_register_brokers=False), ROLES["all"])
        endpoints = await node.start()
        assert "not configured at this Master" in (node.refused_by_master or "")
        assert endpoints.http is not None
        host, _, port = endpoints.http.removeprefix("http://").rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        await node.close()

    asyncio.run(main())


def test_a_taken_port_is_seen_before_the_broker_starts(tmp_path: Path) -> None:
    async def main() -> None:
        first = Node(settings(tmp_path / "a"), ROLES["master"])
        where = await first.start()
        assert where.http is not None
        for taken in ({"master__listen": where.master}, {"http__listen": where.http.removeprefix("http://")}):
            second = Node(settings(tmp_path / "b", **taken), ROLES["all"])
            with pytest.raises(ConfigError, match="the port is in use"):
                await second.start()
            assert second.broker is None
        await first.close()

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
    with pytest.raises(ConfigError, match=f"{file / 'data'} cannot be created: {file} is a file\n"):
        make_directory(file / "data")
    with pytest.raises(ConfigError, match="/proc/nowhere/master cannot be created: /proc accepts no directories\n"):
        make_directory(Path("/proc/nowhere/master"))
