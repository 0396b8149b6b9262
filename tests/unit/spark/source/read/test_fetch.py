"""Ranges as Arrow batches, against scripted Brokers: what is away is waited for, what is gone is told."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

import pytubemq.sync
from pytubemq.client.partition_state import Known
from pytubemq.errors import Code, CorruptError, OffsetMovedError, TransportError
from pytubemq.model.cluster_address import ClusterAddress, ClusterUser
from pytubemq.model.ids import Partition
from pytubemq.net.iothread import IoThread
from pytubemq.spark.source.planning.plan import Ends, OffsetRange
from pytubemq.spark.source.read import fetch, source_connection
from pytubemq.spark.source.read.fetch import close_kept, fetched_batches
from pytubemq.spark.source.read.source_connection import Cluster
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

P0 = Partition(1, "demo", 0)
UNIT = 28


@pytest.fixture
def io() -> Iterator[IoThread]:
    thread = IoThread()
    yield thread
    thread.close()


@pytest.fixture
def mock(io: IoThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[MockBroker]:
    monkeypatch.setattr(source_connection, "_reached", set())
    monkeypatch.setattr(pytubemq.sync, "connect", partial(pytubemq.sync.connect, request_timeout_s=2))

    async def start() -> MockBroker:
        mock = MockBroker(topics={"demo": 1})
        await mock.start()
        mock.store("demo", b"a", b"b", b"c")
        return mock

    made = io.run(start())
    yield made
    io.run(made.stop())


@pytest.fixture
def cluster(mock: MockBroker) -> Iterator[Cluster]:
    cluster = Cluster(ClusterAddress.parse(mock.masters))
    yield cluster
    close_kept()
    cluster.forget()


def batches(cluster: Cluster, *, start: int = 0, rows: int = 3, **more: Any) -> Iterator[Any]:
    wanted = OffsetRange(P0, start * UNIT, rows * UNIT)
    return fetched_batches(cluster, wanted, ("offset", "body"), time_zone=ZoneInfo("UTC"), **more)


def bodies(found: Iterator[Any]) -> list[bytes]:
    return [body for batch in found for body in batch.column("body").to_pylist()]


def test_a_range_comes_whole_and_the_next_one_over_the_same_connection(mock: MockBroker, cluster: Cluster) -> None:
    assert bodies(batches(cluster)) == [b"a", b"b", b"c"]
    asked = len(mock.received(Method.CONSUMER_HEARTBEAT_C2B))
    assert bodies(batches(cluster, start=1, rows=2)) == [b"b"]
    assert len(mock.received(Method.CONSUMER_HEARTBEAT_C2B)) == asked


def test_many_fetches_are_one_range(mock: MockBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "FETCH_MESSAGES", 1)
    mock.store("demo", *(b"%d" % n for n in range(40)))
    found = bodies(batches(cluster, rows=43))
    assert found == [b"a", b"b", b"c", *(b"%d" % n for n in range(40))]


def test_a_connection_that_ended_meanwhile_costs_nothing(
    io: IoThread, mock: MockBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bodies(batches(cluster)) == [b"a", b"b", b"c"]
    io.call(partial(mock.drop_connections, master=False))
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("nothing is waited for"))
    assert bodies(batches(cluster)) == [b"a", b"b", b"c"]


def test_a_broker_that_comes_back_completes_the_range(
    io: IoThread, mock: MockBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "FETCH_MESSAGES", 1)
    found = batches(cluster)
    assert next(found).column("body").to_pylist() == [b"a"]
    io.run(mock.stop_broker())
    pauses: list[float] = []

    def sleep(pause_s: float) -> None:
        if not pauses:
            io.run(mock.start_broker())
        pauses.append(pause_s)

    monkeypatch.setattr(time, "sleep", sleep)
    rest = bodies(found)
    assert rest == [b"b", b"c"]
    assert pauses


def test_a_broker_that_stays_away_ends_the_task(
    io: IoThread, mock: MockBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_connection, "OUTAGE_S", 0.2)
    io.run(mock.stop_broker())
    with pytest.raises(TransportError):
        next(batches(cluster))


def test_a_broker_that_does_not_answer_is_asked_again(
    mock: MockBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytubemq.client.reader.range_reads.MAX_WAIT_S", 0.0)
    mock.silence(Method.READ_RANGE_C2B)
    assert bodies(batches(cluster)) == [b"a", b"b", b"c"]


def test_a_visit_token_that_the_broker_does_not_know_is_renewed(mock: MockBroker, cluster: Cluster) -> None:
    mock.fail_next(Method.READ_RANGE_C2B, code=Code.CERTIFICATE_FAILURE)
    assert bodies(batches(cluster)) == [b"a", b"b", b"c"]


def test_a_range_beyond_a_log_that_shrank_is_data_loss(mock: MockBroker, cluster: Cluster) -> None:
    found = batches(cluster, rows=5)
    assert next(found).column("body").to_pylist() == [b"a", b"b", b"c"]
    with pytest.raises(OffsetMovedError, match=r"data loss in partition 1:demo:0.*the Broker has 0 to 84"):
        next(found)


def test_a_hole_that_may_be_is_left_out_and_told(mock: MockBroker, cluster: Cluster) -> None:
    holes: list[tuple[OffsetRange, Ends]] = []
    found = batches(cluster, rows=5, fail_on_data_loss=False, on_loss=lambda hole, there: holes.append((hole, there)))
    assert bodies(found) == [b"a", b"b", b"c"]
    assert holes == [(OffsetRange(P0, 84, 140), Ends(0, 84))]


def test_rows_of_other_types_are_left_out(mock: MockBroker, cluster: Cluster) -> None:
    with pytubemq.sync.connect(mock.masters) as tube, tube.producer("demo") as producer:
        producer.send(b"d", msg_type="odd")
    assert bodies(batches(cluster, rows=4, filters=("odd",))) == [b"d"]
    assert bodies(batches(cluster, rows=4, filters=("even",))) == []


def test_a_range_left_in_the_middle_leaves_nothing_behind(
    mock: MockBroker, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "FETCH_MESSAGES", 1)
    found = batches(cluster)
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert fetch._kept == []
    assert bodies(batches(cluster)) == [b"a", b"b", b"c"]


def test_a_message_that_cannot_be_read_ends_the_range_behind_those_before_it(
    mock: MockBroker, cluster: Cluster
) -> None:
    mock.partitions["demo", 0].messages[1].corrupt = True
    found = batches(cluster)
    assert next(found).column("body").to_pylist() == [b"a"]
    with pytest.raises(CorruptError, match="from offset 28 to before 56"):
        next(found)


@pytest.mark.parametrize("filters", [(), ("x",)])
def test_damage_is_passed_over_and_told_where_loss_is_no_error(
    mock: MockBroker, cluster: Cluster, filters: tuple[str, ...]
) -> None:
    with pytubemq.sync.connect(mock.masters) as tube, tube.producer("demo") as producer:
        for number in range(7):
            producer.send(b"%d" % number, msg_type="x")
    for damaged in (4, 5, 8):
        mock.partitions["demo", 0].messages[damaged].corrupt = True
    holes: list[OffsetRange] = []
    found = batches(
        cluster, rows=10, filters=filters, fail_on_data_loss=False, on_loss=lambda gone, _: holes.append(gone)
    )
    untyped = [] if filters else [b"a", b"b", b"c"]
    assert bodies(found) == [*untyped, b"0", b"3", b"4", b"6"]
    assert holes == [OffsetRange(P0, 4 * UNIT, 6 * UNIT), OffsetRange(P0, 8 * UNIT, 9 * UNIT)]


def test_a_task_that_is_told_where_the_broker_is_asks_no_master(mock: MockBroker) -> None:
    with pytubemq.sync.connect(mock.masters) as tube:
        tube.partitions("demo")
        known = tube.known
    asked = len(mock.received(Method.PRODUCER_REGISTER_P2M))
    cluster = Cluster(ClusterAddress.parse(mock.masters), known=known)
    assert bodies(batches(cluster)) == [b"a", b"b", b"c"]
    assert len(mock.received(Method.PRODUCER_REGISTER_P2M)) == asked
    close_kept()


def test_a_task_that_is_told_a_wrong_place_asks_the_master(mock: MockBroker) -> None:
    known = Known(brokers=((1, "127.0.0.1", 1),), visit_token=0)
    cluster = Cluster(ClusterAddress.parse(mock.masters), known=known)
    assert bodies(batches(cluster)) == [b"a", b"b", b"c"]
    close_kept()
    cluster.forget()


def test_without_a_client_token_a_task_shows_a_signature_from_its_first_request_on(
    mock: MockBroker, tmp_path: Path
) -> None:
    """As a Java Master demands, whose Brokers refuse a request without it; no Master is asked for that."""
    file = tmp_path / "ann.secret"
    file.touch(mode=0o600)
    file.write_text("a-secret-of-ann-in-these-tests")
    address = mock.broker_address
    signing = Cluster(
        ClusterAddress.parse("127.0.0.1:1", user=ClusterUser("ann", str(file))),
        known=Known(((1, address.host, address.port),), 7),
    )
    try:
        assert bodies(batches(signing)) == [b"a", b"b", b"c"]
    finally:
        close_kept()
        signing.forget()
    shown = [request.auth_info for request in mock.received(Method.READ_RANGE_C2B)]
    assert {one.visit_authorized_token for one in shown} == {7}
    assert [one.auth_authorized_token.split(" ")[0] for one in shown] == ["ann"] * len(shown)
    assert all("a-secret" not in one.auth_authorized_token for one in shown)
