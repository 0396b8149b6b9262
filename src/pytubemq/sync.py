"""The client for callers without an event loop: the same names, no `await`.

from pytubemq import sync

with sync.connect("127.0.0.1:8715") as tube, tube.producer("demo") as producer:
    print(producer.send(b"hello"))
"""

from pytubemq.client.options import Start
from pytubemq.client.sync import Batch, Consumer, Producer, Reader, Tube, connect

__all__ = ["Batch", "Consumer", "Producer", "Reader", "Start", "Tube", "connect"]
