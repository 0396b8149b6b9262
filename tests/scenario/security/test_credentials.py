"""Credentials by address, file and environment, and client tokens that replace the secret in other processes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import pytubemq
import pytubemq.sync
from pytubemq import Start, connect
from pytubemq.client.reader.range_reads import RangeWay
from pytubemq.client.session.cluster_connection import OLD_TOKEN
from pytubemq.errors import ConfigError, NotAllowedError
from tests.scenario.security.secured import address_of, cluster, is_known, user, users_of
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.client.partition_state import Known
    from pytubemq.security.credentials import Credentials

pytestmark = pytest.mark.anyio


def file_of(directory: Path, credentials: Credentials) -> Path:
    path = directory / f"{credentials.user}.secret"
    path.touch(mode=0o600)
    path.write_text(credentials.secret.reveal())
    return path


async def test_the_address_names_the_file_for_both_clients(tmp_path: Path) -> None:
    async with cluster(tmp_path / "data") as node:
        ann = await user(node, "ann", "produce topic orders")
        address = f"{address_of(node)}?user=ann&secret_file={file_of(tmp_path, ann)}"
        async with connect(address) as tube, tube.producer("orders") as producer:
            assert (await producer.send(b"x")).partition.topic == "orders"

        def send() -> str:
            with pytubemq.sync.connect(address) as tube, tube.producer("orders") as producer:
                return producer.send(b"x").partition.topic

        assert await asyncio.to_thread(send) == "orders"


async def test_the_environment_names_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster(tmp_path / "data") as node:
        ann = await user(node, "ann", "produce topic orders")
        monkeypatch.setenv("PYTUBEMQ_USER", "ann")
        with pytest.raises(ConfigError, match="neither PYTUBEMQ_SECRET_FILE nor PYTUBEMQ_SECRET"):
            async with connect(address_of(node)):
                pass
        monkeypatch.setenv("PYTUBEMQ_SECRET_FILE", str(file_of(tmp_path, ann)))
        async with connect(address_of(node)) as tube, tube.producer("orders") as producer:
            assert await producer.send(b"x")


async def known_of(address: str, credentials: Credentials) -> Known:
    """What a process passes on after it has left."""
    async with connect(address, credentials=credentials) as tube:
        await tube.partitions("orders")
        return tube.known


async def test_a_client_token_replaces_the_secret_in_another_process(tmp_path: Path) -> None:
    async with cluster(tmp_path / "data") as node:
        ann = await user(node, "ann", "produce topic orders", "consume topic orders", "consume group *")
        known = await known_of(address_of(node), ann)
        assert known.client_token
        assert known.client_token not in repr(known)
        for handed in (known, replace(known, brokers=())):
            async with connect(address_of(node), known=handed) as tube:
                async with tube.producer("orders") as producer:
                    await producer.send_many([b"many"] * 50)
                assert sum(end for _, end in (await tube.offsets(await tube.partitions("orders"))).values()) > 0
                async with tube.consumer(f"g{len(handed.brokers)}", "orders", start=Start.EARLIEST) as consumer:
                    async for batch in consumer.batches():
                        await batch.confirm()
                        break
        async with connect(address_of(node), known=known) as tube:
            await tube.partitions("orders")
            assert tube.known.client_token, "the Master renews it"


async def test_an_invalid_token_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async with cluster(tmp_path / "data") as node:
        ann = await user(node, "ann", "produce topic orders")
        known = await known_of(address_of(node), ann)
        assert node.master is not None
        await users_of(node).rotate("ann", by=node.master.change_by("test"))
        await until(lambda: is_known(node))
        async with connect(address_of(node), known=known) as tube:
            with pytest.raises(NotAllowedError, match="the token is not valid any more") as caught:
                await tube.partitions("orders")
            assert caught.value.hint == OLD_TOKEN
            assert known.client_token not in str(caught.value)


async def test_a_connection_that_was_kept_takes_the_newer_token(tmp_path: Path) -> None:
    async with cluster(tmp_path / "data") as node:
        ann = await user(node, "ann", "consume topic orders")
        first, later = await known_of(address_of(node), ann), await known_of(address_of(node), ann)
        head = later.client_token.split(".")
        later = replace(later, client_token=".".join([*head[:2], str(int(head[2]) + 1), *head[3:]]))
        way, newer = (RangeWay.known(known, known.brokers[0][0], client_name="test") for known in (first, later))
        assert way is not None
        assert newer is not None
        kept = await asyncio.to_thread(way.connect)
        renewed = kept.with_tokens_of(newer)
        assert (renewed.way.client_id, renewed.way.auth_info) == (newer.client_id, newer.auth_info)
        assert (renewed.connection, kept.with_tokens_of(None)) == (kept.connection, kept)
        assert renewed.with_tokens_of(way) is renewed, "not an older one"
        kept.close()
