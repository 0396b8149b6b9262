"""TubeMQ in Python: connect, produce, consume, read.

The names below are loaded when they are first used, so that `import pytubemq` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pytubemq._version import __version__

if TYPE_CHECKING:
    from pytubemq import errors, sync
    from pytubemq.client.consumer.client_balance.consumer import BalanceConsumer, PartitionOffset
    from pytubemq.client.consumer.consumer import Consumer
    from pytubemq.client.consumer.consumer_base import ConsumerStats
    from pytubemq.client.producer.producer import Producer, ProducerStats
    from pytubemq.client.producer.receipts import Receipts
    from pytubemq.client.push.push_consumer import PushConsumer, PushStats
    from pytubemq.client.reader.reader import Reader
    from pytubemq.client.received.batch import Batch, ReadBatch
    from pytubemq.client.session.events import (
        ConfirmFailed,
        Connected,
        Event,
        HandlerFailed,
        Lost,
        PositionMoved,
        Rebalanced,
        Skipped,
        SlowConsumer,
        Throttled,
    )
    from pytubemq.client.start_position import Bound, Start
    from pytubemq.client.tube import Tube, connect
    from pytubemq.model.ids import Address, BrokerInfo, Partition
    from pytubemq.model.message import Message, Receipt
    from pytubemq.model.tls_options import TlsOptions
    from pytubemq.security.credentials import Credentials

__all__ = [
    "Address",
    "BalanceConsumer",
    "Batch",
    "Bound",
    "BrokerInfo",
    "ConfirmFailed",
    "Connected",
    "Consumer",
    "ConsumerStats",
    "Credentials",
    "Event",
    "HandlerFailed",
    "Lost",
    "Message",
    "Partition",
    "PartitionOffset",
    "PositionMoved",
    "Producer",
    "ProducerStats",
    "PushConsumer",
    "PushStats",
    "ReadBatch",
    "Reader",
    "Rebalanced",
    "Receipt",
    "Receipts",
    "Skipped",
    "SlowConsumer",
    "Start",
    "Throttled",
    "TlsOptions",
    "Tube",
    "__version__",
    "connect",
    "errors",
    "sync",
]

_HOMES = {
    "client.consumer.client_balance.consumer": ("BalanceConsumer", "PartitionOffset"),
    "client.received.batch": ("Batch", "ReadBatch"),
    "client.consumer.consumer": ("Consumer",),
    "client.session.events": (
        "ConfirmFailed",
        "Connected",
        "Event",
        "HandlerFailed",
        "Lost",
        "PositionMoved",
        "Rebalanced",
        "Skipped",
        "SlowConsumer",
        "Throttled",
    ),
    "client.consumer.consumer_base": ("ConsumerStats",),
    "client.start_position": ("Bound", "Start"),
    "client.producer.producer": ("Producer", "ProducerStats"),
    "client.push.push_consumer": ("PushConsumer", "PushStats"),
    "client.reader.reader": ("Reader",),
    "client.producer.receipts": ("Receipts",),
    "client.tube": ("Tube", "connect"),
    "model.ids": ("Address", "BrokerInfo", "Partition"),
    "model.message": ("Message", "Receipt"),
    "model.tls_options": ("TlsOptions",),
    "security.credentials": ("Credentials",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in ("errors", "sync"):
        return import_module(f"pytubemq.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'pytubemq' has no attribute {name!r}")
    value: object = getattr(import_module(f"pytubemq.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
