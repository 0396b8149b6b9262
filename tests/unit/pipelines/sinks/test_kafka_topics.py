"""A topic that neither is there nor comes to be is told before the first batch, and not by a producer that waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.model import Sink
from pytubemq.pipelines.sinks.kafka.writer import AUTO_CREATE, KafkaSink


class Later:
    """Kafka's answer that is waited for."""

    def __init__(self, value: object) -> None:
        self._value = value

    def get(self, wait: int, unit: object) -> Any:
        return self._value


class Topics(set[str]):
    contains = set.__contains__


class Admin:
    """Of a cluster with the topic `there`, whose brokers tell a setting."""

    def __init__(self, told: str | None) -> None:
        self._entries = {AUTO_CREATE: SimpleNamespace(value=lambda: told)} if told is not None else {}
        self.is_open = True

    def listTopics(self) -> object:
        return SimpleNamespace(names=lambda: Later(Topics({"there"})))

    def describeCluster(self) -> object:
        one = SimpleNamespace(next=lambda: SimpleNamespace(id=lambda: 1))
        brokers = SimpleNamespace(iterator=lambda: one)
        return SimpleNamespace(nodes=lambda: Later(brokers))

    def describeConfigs(self, asked: list[str]) -> object:
        return SimpleNamespace(all=lambda: Later({asked[0]: self._entries}))

    def close(self, within: object) -> None:
        self.is_open = False


class Resource(str):
    Type = SimpleNamespace(BROKER="broker")

    def __new__(cls, kind: str, name: str) -> Resource:
        return super().__new__(cls, f"{kind} {name}")


def session() -> Any:
    java = SimpleNamespace(
        util=SimpleNamespace(
            concurrent=SimpleNamespace(TimeUnit=SimpleNamespace(MILLISECONDS=None)),
            Collections=SimpleNamespace(singletonList=lambda one: [one]),
        ),
        time=SimpleNamespace(Duration=SimpleNamespace(ofSeconds=lambda seconds: seconds)),
    )
    config = SimpleNamespace(ConfigResource=Resource)
    kafka = SimpleNamespace(common=SimpleNamespace(config=config))
    jvm = SimpleNamespace(java=java, org=SimpleNamespace(apache=SimpleNamespace(kafka=kafka)))
    return SimpleNamespace(sparkContext=SimpleNamespace(_jvm=jvm))


@pytest.mark.parametrize(
    ("topic", "told", "refused"),
    [("there", "false", False), ("new", "true", False), ("new", None, False), ("new", "false", True)],
)
def test_a_topic_that_is_not_there_is_refused_where_brokers_say_that_they_make_none(
    monkeypatch: pytest.MonkeyPatch, topic: str, told: str | None, refused: bool
) -> None:
    admin = Admin(told)
    monkeypatch.setattr(KafkaSink, "_admin", lambda self, spark: admin)
    sink = KafkaSink(Sink("s", "kafka", topic=topic, options={"kafka.bootstrap.servers": "h:1"}))
    if refused:
        with pytest.raises(ConfigError, match="sink s: the topic new does not exist, and the brokers do not create"):
            sink.check(session(), None)
    else:
        sink.check(session(), None)
    assert not admin.is_open
