"""What `import pytubemq` does not load, and the signatures on which users rely."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import pytubemq
from pytubemq import sync
from pytubemq.client.consumer.client_balance.consumer import BalanceConsumer
from pytubemq.client.consumer.consumer import Consumer
from pytubemq.client.producer.producer import Producer
from pytubemq.client.reader.reader import Reader
from pytubemq.client.tube import Tube

LOADED = """
import sys
import pytubemq
assert not any(name.startswith("google") for name in sys.modules), "protobuf is loaded too early"
from pytubemq import connect, Start, sync
for module in sorted(sys.modules):
    print(module)
"""


@pytest.mark.process
def test_the_client_loads_neither_servers_nor_the_command_line() -> None:
    result = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    loaded = set(result.stdout.split())
    assert "pytubemq.client.tube" in loaded
    for room in ("admin", "broker", "cli", "console", "demo", "master", "server", "spark", "storage", "testing"):
        assert not any(f"{name}.".startswith(f"pytubemq.{room}.") for name in loaded), room
    for library in ("click", "rich", "starlette", "uvicorn", "pyarrow", "pyspark", "sqlite3", "structlog"):
        assert library not in loaded, library


INSIDE = {
    Producer: {
        "check_open",
        "encode",
        "encode_many",
        "ended",
        "enqueue",
        "enqueue_many",
    },
    Consumer: {
        "add_ready",
        "count",
        "emit",
        "ended",
        "fetch_with",
        "give_up",
        "has_ready",
        "occupied_for_s",
        "report_reached",
        "report_unreachable",
    },
    BalanceConsumer: {
        "add_ready",
        "count",
        "emit",
        "ended",
        "fetch_with",
        "give_up",
        "has_ready",
        "connected",
        "meta_check_s",
        "wait_for_news",
        "occupied_for_s",
        "report_reached",
        "record_share",
        "report_unreachable",
    },
    Reader: {"ended", "fetch_ahead", "is_finished", "read", "rng"},
}
"""What the client's own parts call; not for users, so not in the facade."""


def members(kind: type) -> dict[str, object]:
    """What a class and those it is made of define."""
    return {name: member for base in reversed(kind.__mro__[:-1]) for name, member in vars(base).items()}


def test_the_sync_facade_has_the_same_names_and_arguments() -> None:
    pairs = [
        (Tube, sync.Tube),
        (Producer, sync.Producer),
        (Consumer, sync.Consumer),
        (BalanceConsumer, sync.BalanceConsumer),
        (Reader, sync.Reader),
    ]
    for ours, theirs in pairs:
        expected_names = {name for name in members(ours) if not name.startswith("_")} - INSIDE.get(ours, set())
        assert expected_names <= {name for name in members(theirs) if not name.startswith("_")}, theirs
        for name, member in members(theirs).items():
            if name.startswith("_") or not inspect.isfunction(member):
                continue
            expected = inspect.signature(getattr(ours, name))
            assert list(inspect.signature(member).parameters.values()) == list(expected.parameters.values()), name
    assert inspect.signature(sync.connect).parameters == inspect.signature(pytubemq.connect).parameters


def test_the_signatures_users_rely_on_are_pinned() -> None:
    def names(function: object) -> list[str]:
        return [name for name in inspect.signature(function).parameters if name != "self"]  # type: ignore[arg-type]

    assert names(pytubemq.connect) == [
        "masters",
        "first_connect",
        "request_timeout_s",
        "client_name",
        "credentials",
        "known",
        "tls",
    ]
    assert (
        names(Producer.send) == names(Producer.submit) == ["body", "attrs", "msg_type", "msg_time", "key", "partition"]
    )
    assert names(Producer.send_many) == names(Producer.submit_many)
    assert names(Producer.send_many) == ["bodies", "attrs", "msg_type", "msg_time", "key", "partition"]
    assert names(Consumer.batches) == ["max_messages", "max_wait_s", "max_bytes", "idle_timeout_s"]
    assert names(Tube.reader) == [
        "partition",
        "start",
        "end",
        "end_exists",
        "on_malformed",
        "retry_for_s",
        "filters",
    ]
    assert names(Tube.consumer) == [
        "group",
        "topic",
        "topics",
        "start",
        "filters",
        "confirm_timeout_s",
        "close_timeout_s",
        "fetch_interval_s",
        "max_messages_per_s",
        "max_bytes_per_s",
        "bound",
    ]
