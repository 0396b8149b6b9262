"""The source's way to the cluster, against scripted Brokers: what is away is waited for and then named."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import pytubemq.sync
from pytubemq.errors import ConfigError, NotFoundError, TransportError
from pytubemq.model.ids import Partition
from pytubemq.net.iothread import IoThread
from pytubemq.spark.source.options import parse_options
from pytubemq.spark.source.planning import survey as survey_module
from pytubemq.spark.source.planning.plan import BrokerKind, Ends, OffsetRange
from pytubemq.spark.source.planning.survey import Survey
from pytubemq.spark.source.read import source_connection
from pytubemq.spark.source.read.source_connection import Cluster
from pytubemq.spark.source.read.task import RangePartition, read_range
from pytubemq.testing.mock_broker import MockBroker
from pytubemq.wire.protocol.extensions import Capability
from pytubemq.wire.protocol.messages.master import MasterAuthorizedInfo
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.net.server.call import Call

P0 = Partition(1, "demo", 0)
P1 = Partition(2, "demo", 0)


@pytest.fixture
def io() -> Iterator[IoThread]:
    thread = IoThread()
    yield thread
    thread.close()


@pytest.fixture
def mocks(io: IoThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[MockBroker, MockBroker]]:
    """Two Brokers with a partition of the topic each; the first one's Master names both."""
    monkeypatch.setattr(source_connection, "_reached", set())
    monkeypatch.setattr(pytubemq.sync, "connect", partial(pytubemq.sync.connect, request_timeout_s=1.0))

    async def start() -> tuple[MockBroker, MockBroker]:
        first, second = MockBroker(topics={"demo": 1}), MockBroker(topics={"demo": 1}, broker_id=2)
        await first.start()
        await second.start()
        first.peers.append(second)
        first.store("demo", b"a", b"b")
        second.store("demo", b"c")
        return first, second

    made = io.run(start())
    yield made
    for mock in made:
        io.run(mock.stop())


@pytest.fixture
def survey(mocks: tuple[MockBroker, MockBroker]) -> Iterator[Survey]:
    survey = Survey(parse_options({"master": mocks[0].masters, "topic": "demo"}))
    yield survey
    survey.cluster.forget()


def go_away(io: IoThread, mock: MockBroker) -> None:
    """As a Master sees it that has noticed: producers are not told of this Broker any more."""
    mock.online = False
    io.run(mock.stop_broker())


@pytest.mark.slow
def test_a_topic_is_never_taken_for_the_part_whose_brokers_are_there(
    io: IoThread, mocks: tuple[MockBroker, MockBroker], survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_connection, "OUTAGE_S", 0.5)
    go_away(io, mocks[1])
    with pytest.raises(TransportError, match="Broker 2"):
        survey.ends()


def test_a_broker_that_comes_back_completes_the_answer(
    io: IoThread, mocks: tuple[MockBroker, MockBroker], survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = mocks[1]
    go_away(io, away)
    pauses: list[float] = []

    def sleep(pause_s: float) -> None:
        if not pauses:
            io.run(away.start_broker())
        pauses.append(pause_s)

    monkeypatch.setattr(time, "sleep", sleep)
    assert survey.ends() == {P0: Ends(0, 56), P1: Ends(0, 28)}


def test_a_partition_of_a_broker_that_is_away_is_not_taken_for_an_empty_one(
    io: IoThread, mocks: tuple[MockBroker, MockBroker], survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_connection, "OUTAGE_S", 0.5)
    io.run(mocks[1].stop_broker())
    assert survey.cluster.ends_of(P0) == Ends(0, 56)
    with pytest.raises(TransportError, match="Broker 2"):
        survey.cluster.ends_of(P1)


def test_a_pattern_reads_the_topics_whose_whole_names_match_also_those_that_come_later(
    io: IoThread, mocks: tuple[MockBroker, MockBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey_module, "PARTITIONS_KNOWN_S", 0.0)
    survey = Survey(parse_options({"master": mocks[0].masters, "topicPattern": "de.*"}))
    try:
        assert set(survey.ends()) == {P0, P1}

        async def more() -> None:
            mocks[0].topics.update({"dec": 1, "undemo": 1})

        io.run(more())
        assert set(survey.ends()) == {P0, P1, Partition(1, "dec", 0)}
        assert Survey(parse_options({"master": mocks[0].masters, "topicPattern": "x"})).ends() == {}
    finally:
        survey.cluster.forget()


def test_a_topic_that_does_not_exist_is_named_at_once(mocks: tuple[MockBroker, MockBroker]) -> None:
    survey = Survey(parse_options({"master": mocks[0].masters, "topic": "demo,nosuch"}))
    try:
        with pytest.raises(NotFoundError, match="nosuch"):
            survey.ends()
    finally:
        survey.cluster.forget()


def test_a_topic_that_was_read_before_is_waited_for(
    io: IoThread, mocks: tuple[MockBroker, MockBroker], survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey_module, "PARTITIONS_KNOWN_S", 0.0)
    survey.ends()

    async def take(topics: dict[str, int]) -> None:
        for mock in mocks:
            mock.topics = dict(topics)

    io.run(take({}))
    monkeypatch.setattr(time, "sleep", lambda _: io.run(take({"demo": 1})))
    assert set(survey.ends()) == {P0, P1}


def test_a_time_is_looked_up_and_none_is_told_apart_from_the_end(survey: Survey) -> None:
    survey.ends()
    assert survey.at_time([P0, P1], 0) == {P0: 0, P1: 0}
    assert survey.at_time([P0], 4_000_000_000_000) == {P0: None}


def test_a_group_without_a_position_is_told_as_nowhere(survey: Survey) -> None:
    survey.ends()
    assert survey.of_group([P0, P1], "nobody") == {P0: None, P1: None}


def test_what_only_our_brokers_can_do_is_refused_at_others(io: IoThread, survey: Survey) -> None:
    mock = MockBroker(topics={"demo": 1}, capabilities=Capability(0))
    io.run(mock.start())
    asked = {"master": mock.masters, "topic": "demo"}
    assert not survey.any_java()
    try:
        java = Survey(parse_options(asked))
        assert java.any_java()
        java.cluster.forget()
        for more, says in (
            ({"filters": "a"}, "filters"),
            ({"maxBytesPerTrigger": "1MiB"}, "maxRowsPerTrigger"),
            ({"commitGroup": "g"}, "commitGroup"),
        ):
            survey = Survey(parse_options(asked | more))
            with pytest.raises(ConfigError, match=rf"(?s)Broker 1.*{says}.*Java Broker"):
                survey.ends()
            survey.cluster.forget()
    finally:
        io.run(mock.stop())


def test_a_task_reads_by_what_the_driver_knows_without_asking_a_master(
    mocks: tuple[MockBroker, MockBroker], survey: Survey
) -> None:
    survey.ends()
    known = survey.known()
    survey.cluster.forget()
    asked = len(mocks[0].received(Method.PRODUCER_HEARTBEAT_P2M))
    task = Cluster(survey.cluster.masters, known=known)
    assert task.ends_of(P1) == Ends(0, 28)
    assert len(mocks[0].received(Method.PRODUCER_HEARTBEAT_P2M)) == asked


def test_a_task_shows_the_drivers_visit_token_and_fetches_a_new_one_when_that_is_too_old(
    io: IoThread, mocks: tuple[MockBroker, MockBroker], survey: Survey
) -> None:
    tokens = itertools.count(42)

    def answer(call: Call, request: Any) -> Any:
        token = MasterAuthorizedInfo(visit_authorized_token=next(tokens))
        return dataclasses.replace(mocks[0].work(call, request), authorized_info=token)

    mocks[0].respond_fn(Method.PRODUCER_HEARTBEAT_P2M, answer)
    survey.ends()
    task = RangePartition([OffsetRange(P0, 0, 56)], BrokerKind.OURS, survey.known())
    told = survey.known().visit_token
    assert told >= 42
    assert str(told) not in repr(task.known)
    survey.cluster.forget()
    options = parse_options({"master": mocks[0].masters, "topic": "demo", "columns": "body"})
    mocks[0].fail_next(Method.READ_RANGE_C2B, code=415, text="unknown visit token")
    rows = [
        body for batch in read_range(options, pickle.loads(pickle.dumps(task))) for body in batch["body"].to_pylist()
    ]
    assert rows == [b"a", b"b"]
    shown = [request.auth_info.visit_authorized_token for request in mocks[0].received(Method.READ_RANGE_C2B)]
    assert shown[0] == told < shown[-1]


def test_attempts_of_one_task_at_the_same_time_have_the_same_rows(
    mocks: tuple[MockBroker, MockBroker], survey: Survey
) -> None:
    """So a speculative copy, or a retry while the first try still runs, takes nothing from it and adds nothing."""
    survey.ends()
    options = parse_options({"master": mocks[0].masters, "topic": "demo", "columns": "offset,body"})
    task = RangePartition([OffsetRange(P0, 0, 56)], BrokerKind.OURS, survey.known())
    attempts = [read_range(options, task) for _ in range(3)]
    first, left, last = (next(attempt) for attempt in attempts)
    assert isinstance(attempts[1], Generator)
    attempts[1].close()
    assert first == left == last
    assert [next(attempt, None) for attempt in (attempts[0], attempts[2])] == [None, None]
    assert mocks[0].partitions["demo", 0].owners == {}
    assert mocks[0].partitions["demo", 0].confirmed == {}


def test_a_thread_closes_its_own_connections_only(mocks: tuple[MockBroker, MockBroker]) -> None:
    cluster = Cluster(parse_options({"master": mocks[0].masters, "topic": "demo"}).masters)
    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(cluster.tube).result()
        assert cluster.tube() is not other
        assert cluster.tube() is cluster.tube()
        cluster.forget()
        assert other.partitions("demo") == [P0, P1]
        assert beside.submit(cluster.tube).result() is other
        beside.submit(cluster.forget).result()
