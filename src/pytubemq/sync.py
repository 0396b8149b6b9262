"""The client for callers without an event loop: the same names, no `await`.

from pytubemq import sync

with sync.connect("127.0.0.1:8715") as tube, tube.producer("demo") as producer:
    print(producer.send(b"hello"))
"""

from pytubemq.client.start_position import Start
from pytubemq.client.sync.balance import BalanceConsumer
from pytubemq.client.sync.consumer import Batch, Consumer
from pytubemq.client.sync.producer import Producer
from pytubemq.client.sync.push import PushConsumer
from pytubemq.client.sync.reader import Reader
from pytubemq.client.sync.tube import Tube, connect

__all__ = ["BalanceConsumer", "Batch", "Consumer", "Producer", "PushConsumer", "Reader", "Start", "Tube", "connect"]
