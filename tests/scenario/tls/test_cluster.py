"""A whole cluster over TLS: every kind of client, each with its certificate, and those that are refused."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

import pytubemq
import pytubemq.sync
from pytubemq.cli.api import Api
from pytubemq.client.reader.range_reads import RangeWay
from pytubemq.errors import FrameError, TlsError, TransportError
from pytubemq.net.client.connection import RpcConnection
from pytubemq.server.cluster import EmbeddedCluster
from tests.support.certificates import Authority
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.client.options import FirstConnect
    from pytubemq.model.ids import Partition
    from pytubemq.model.tls_options import TlsOptions

pytestmark = [pytest.mark.scenario, pytest.mark.anyio]

BODIES = [b"%d" % number for number in range(200)]
ENOUGH_S = 30.0


async def drain(consumer: pytubemq.Consumer | pytubemq.BalanceConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    async for batch in consumer.batches():
        found += [message.body for message in batch]
        await batch.confirm()
        if len(found) >= count:
            break
    return found


async def test_every_kind_of_client_over_mutual_tls(authority: Authority, secure: dict[str, object]) -> None:
    tls = authority.options(authority.issue("client", "client.example"))
    async with EmbeddedCluster(settings=secure) as cluster:
        await cluster.create_topic("demo", partitions=2)
        plain = {int(address.rpartition(":")[2]) for address in cluster.brokers.values()}
        async with pytubemq.connect(cluster.master_tls, tls=tls) as tube:
            async with tube.producer("demo") as producer:
                await asyncio.gather(*(producer.send(body) for body in BODIES))
            assert not plain & {broker.address.port for broker in tube.brokers}, "the ports of TLS are named"
            async with tube.consumer("pull", "demo", start=pytubemq.Start.EARLIEST) as consumer:
                assert sorted(await drain(consumer, len(BODIES))) == sorted(BODIES)
            async with tube.balance_consumer(
                "balance", "demo", node_id=0, source_count=1, start=pytubemq.Start.EARLIEST
            ) as balance:
                assert sorted(await drain(balance, len(BODIES))) == sorted(BODIES)
            parts = await tube.partitions("demo")
            ends = await tube.offsets(parts)
            found = []
            for partition in parts:
                async with tube.reader(partition, end=ends[partition][1]) as reader:
                    async for batch in reader.batches():
                        found += [message.body for message in batch]
            assert sorted(found) == sorted(BODIES)
            known = tube.known
        assert await asyncio.to_thread(_read_blocking, known, parts, ends, tls) == len(BODIES)
        assert await asyncio.to_thread(_sync, cluster.master_tls, tls) == 2
        health = await asyncio.to_thread(Api(f"{cluster.http}?ca={authority.path}", timeout_s=10).health)
        assert health["status"] in ("healthy", "degraded")
        groups = await asyncio.to_thread(Api(f"{cluster.http}?ca={authority.path}", timeout_s=10).rows, "groups")
        assert {row["name"] for row in groups} >= {"pull", "balance"}, "the Master has asked its Broker, over TLS"


def _read_blocking(
    known: object, parts: list[Partition], ends: dict[Partition, tuple[int, int]], tls: TlsOptions
) -> int:
    count = 0
    for partition in parts:
        way = RangeWay.known(known, partition.broker_id, client_name="test", tls=tls)  # type: ignore[arg-type]
        assert way is not None
        connection = way.connect()
        start, end = ends[partition]
        for stretch in connection.read(partition, start, end, max_messages=100, max_bytes=1 << 20):
            count += len(stretch.rows)
        connection.close()
    return count


def _sync(master: str, tls: TlsOptions) -> int:
    with pytubemq.sync.connect(f"tls://{master}?ca={tls.ca}&cert={tls.cert}&key={tls.key}") as tube:
        with tube.producer("demo") as producer:
            producer.send(b"sync")
        return len(tube.partitions("demo"))


async def test_plain_clients_are_served_beside(authority: Authority, secure: dict[str, object]) -> None:
    async with EmbeddedCluster(settings=secure) as cluster:
        await cluster.create_topic("demo", partitions=1)
        async with pytubemq.connect(cluster.master) as tube, tube.producer("demo") as producer:
            await producer.send(b"plain")
            assert {str(broker.address) for broker in tube.brokers} == set(cluster.brokers.values())


@pytest.mark.parametrize("first_connect", ["fail", "wait"])
async def test_what_cannot_work_ends_in_one_error_soon(
    authority: Authority, secure: dict[str, object], tmp_path: Path, first_connect: FirstConnect
) -> None:
    client = authority.issue("client", "client.example")
    strangers = Authority(tmp_path, "strangers")
    good = authority.options(client)
    async with EmbeddedCluster(settings=secure) as cluster:
        await cluster.create_topic("demo", partitions=1)
        cases: list[tuple[str, TlsOptions | None, str]] = [
            (cluster.master, good, "it does not speak TLS at this port"),
            (cluster.master_tls, strangers.options(client), "signed by an unknown CA"),
            (cluster.master_tls, authority.options(client, server_name="other"), "names another host"),
            (cluster.master_tls, authority.options(), "it demands a certificate"),
            (cluster.master_tls, authority.options(strangers.issue("client")), "it does not know the CA of our"),
        ]
        for master, options, words in cases:
            began_s = time.monotonic()
            with pytest.raises(TlsError) as caught:
                await _send(master, options, first_connect)
            assert words in caught.value.message
            assert caught.value.hint
            assert time.monotonic() - began_s < ENOUGH_S
        if first_connect == "fail":
            with pytest.raises((TransportError, FrameError)) as plainly:
                await _send(cluster.master_tls, None, first_connect)
            assert "TLS" in str(plainly.value)


async def _send(master: str, options: TlsOptions | None, first_connect: FirstConnect) -> None:
    async with (
        asyncio.timeout(ENOUGH_S),
        pytubemq.connect(master, tls=options, first_connect=first_connect) as tube,
        tube.producer("demo") as producer,
    ):
        await producer.send(b"never")


async def test_renewed_certificates_come_into_force_without_a_lost_connection(
    authority: Authority, secure: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytubemq.server.certificates.TLS_RELOAD_PERIOD_S", 0.05)
    tls = authority.options(authority.issue("client", "client.example"))
    async with EmbeddedCluster(settings=secure) as cluster:
        await cluster.create_topic("demo", partitions=1)
        assert cluster._master is not None
        source = cluster._master._certificates.rpc
        assert source is not None
        async with pytubemq.connect(cluster.master_tls, tls=tls) as tube, tube.producer("demo") as producer:
            await producer.send(b"first")
            sent = 1
            assert tube._cluster is not None
            open_before = dict(tube._cluster.pool._open)
            for number in range(3):
                authority.issue("server")
                while source.reloads <= number:
                    await producer.send(b"x")
                    sent += 1
            await producer.send(b"last")
            assert len(open_before) == 2
            assert all(tube._cluster.pool.peek(address) is before for address, before in open_before.items())
            async with tube.consumer("g1", "demo", start=pytubemq.Start.EARLIEST) as consumer:
                assert len(await drain(consumer, sent + 1)) == sent + 1


async def test_a_master_that_demands_certificates_refuses_a_broker_without_one(
    authority: Authority, secure: dict[str, object]
) -> None:
    alone = {key: value for key, value in secure.items() if key not in ("tls.client_cert", "tls.client_key")}
    async with EmbeddedCluster(settings=alone) as cluster:
        running = cluster._running[1]
        broker = getattr(running, "broker", None)
        assert broker is not None

        def says() -> bool:
            return any("it demands a certificate" in problem for problem in broker.health()["problems"])

        await until(says)


async def test_much_is_sent_and_read_over_tls(authority: Authority, secure: dict[str, object]) -> None:
    tls = authority.options(authority.issue("client", "client.example"))
    body = bytes(1_000)
    async with EmbeddedCluster(settings=secure) as cluster:
        await cluster.create_topic("demo", partitions=4)
        async with pytubemq.connect(cluster.master_tls, tls=tls) as tube:
            async with tube.producer("demo") as producer:
                await producer.send_many([body] * 20_000)
                large = await producer.send(bytes(900_000))
            assert large.offset is not None
            async with tube.consumer("g1", "demo", start=pytubemq.Start.EARLIEST) as consumer:
                assert len(await drain(consumer, 20_001)) == 20_001


async def test_a_connection_of_another_kind_is_no_way_in(authority: Authority, secure: dict[str, object]) -> None:
    async with EmbeddedCluster(settings=secure) as cluster:
        address = pytubemq.Address.parse(cluster.master_tls)
        connection = await RpcConnection.connect(address, tls=authority.options())
        with pytest.raises(TlsError):
            await connection.call(1, 1, b"", timeout_s=5.0)
        await connection.close()
