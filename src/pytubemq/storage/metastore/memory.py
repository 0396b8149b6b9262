"""A metadata store that lives as long as its process: for tests and clusters that leave nothing behind."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.storage.metastore.port import BrokerRecord, ClusterSettings, TopicRecord
from pytubemq.storage.metastore.problems import no_broker, no_topic, topic_exists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.model.topic import TopicConfig


class MemoryMetaStore:
    """`MetaStore` in dictionaries."""

    def __init__(self) -> None:
        self._brokers: dict[int, BrokerRecord] = {}
        self._topics: dict[str, TopicRecord] = {}
        self._settings = ClusterSettings()
        self._last_serial = 0

    def brokers(self) -> list[BrokerRecord]:
        return sorted(self._brokers.values(), key=lambda broker: broker.broker_id)

    def put_broker(self, broker: BrokerRecord, *, now_ms: int) -> BrokerRecord:
        known = self._brokers.get(broker.broker_id)
        created_ms = known.created_ms if known is not None else now_ms
        stored = replace(broker, created_ms=created_ms, serial_id=self._serial(now_ms))
        self._brokers[broker.broker_id] = stored
        return stored

    def topics(self) -> list[TopicRecord]:
        return [_copy(topic) for _, topic in sorted(self._topics.items())]

    def create_topic(self, topic: TopicRecord, *, now_ms: int) -> TopicRecord:
        if topic.name in self._topics:
            raise topic_exists(topic.name)
        self._check_brokers(topic.deploys)
        stored = replace(_copy(topic), created_ms=now_ms, serial_id=self._serial(now_ms))
        self._topics[topic.name] = stored
        return _copy(stored)

    def deploy_topic(self, name: str, deploys: Sequence[tuple[int, TopicConfig]], *, now_ms: int) -> TopicRecord:
        topic = self._topics.get(name)
        if topic is None:
            raise no_topic(name)
        self._check_brokers(dict(deploys))
        stored = replace(topic, deploys={**topic.deploys, **dict(deploys)}, serial_id=self._serial(now_ms))
        self._topics[name] = stored
        return _copy(stored)

    def settings(self) -> ClusterSettings:
        return self._settings

    def put_settings(self, settings: ClusterSettings, *, now_ms: int) -> ClusterSettings:
        self._settings = replace(settings, serial_id=self._serial(now_ms))
        return self._settings

    def close(self) -> None:
        pass

    def _serial(self, now_ms: int) -> int:
        self._last_serial = max(now_ms, self._last_serial + 1)
        return self._last_serial

    def _check_brokers(self, deploys: dict[int, TopicConfig]) -> None:
        for broker_id in deploys:
            if broker_id not in self._brokers:
                raise no_broker(broker_id)


def _copy(topic: TopicRecord) -> TopicRecord:
    return replace(topic, deploys=dict(sorted(topic.deploys.items())))
