"""What each of several Brokers on one machine is started with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.durability import Durability
from pytubemq.model.limits import MAX_WORKERS
from pytubemq.server.sources import load_settings
from pytubemq.server.workers.worker_plan import check_directories, plan_workers

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.server.settings import Settings

ANY = {"broker.listen": "127.0.0.1:0", "broker.http_listen": "127.0.0.1:0"}


def settings(**flags: object) -> Settings:
    return load_settings(None, environ={}, flags={key.replace("__", "."): value for key, value in flags.items()})


def test_workers_differ_in_id_ports_and_directory_and_in_nothing_else() -> None:
    base = settings(
        data="/d", broker__id=7, broker__listen="127.0.0.1:9000", broker__http_listen="127.0.0.1:9100",
        broker__durability="process",
    )  # fmt: skip
    plans = plan_workers(base, 3)
    assert [plan.name for plan in plans] == ["worker-0", "worker-1", "worker-2"]
    assert [plan.settings.data for plan in plans] == ["/d/worker-0", "/d/worker-1", "/d/worker-2"]
    brokers = [plan.settings.broker for plan in plans]
    assert [broker.id for broker in brokers] == [7, 8, 9]
    assert [broker.listen for broker in brokers] == ["127.0.0.1:9000", "127.0.0.1:9001", "127.0.0.1:9002"]
    assert [broker.http_listen for broker in brokers] == ["127.0.0.1:9100", "127.0.0.1:9101", "127.0.0.1:9102"]
    assert [broker.tls_port for broker in brokers] == [8124, 8125, 8126]
    assert {broker.durability for broker in brokers} == {Durability.PROCESS}
    assert {plan.settings.master for plan in plans} == {base.master}


def test_any_free_port_stays_any_free_port() -> None:
    plans = plan_workers(load_settings(None, environ={}, flags=ANY), 2)
    assert {plan.settings.broker.listen for plan in plans} == {"127.0.0.1:0"}


def test_the_advertised_address_follows_the_port() -> None:
    plans = plan_workers(settings(broker__advertised="b.example:8000"), 2)
    assert [plan.settings.broker.advertised for plan in plans] == ["b.example:8000", "b.example:8001"]


def test_no_http_is_no_http_for_any_worker() -> None:
    plans = plan_workers(settings(broker__http_listen=""), 2)
    assert [plan.settings.broker.http_listen for plan in plans] == ["", ""]


def test_addresses_are_spread_or_given() -> None:
    spread = plan_workers(settings(broker__listen="127.0.0.1:9000"), 3, ips="spread")
    assert [plan.settings.broker.listen for plan in spread] == ["127.0.0.1:9000", "127.0.0.2:9001", "127.0.0.3:9002"]
    given = plan_workers(settings(broker__listen="127.0.0.1:9000"), 2, ips="127.0.0.9, 127.0.0.4")
    assert [plan.settings.broker.listen for plan in given] == ["127.0.0.9:9000", "127.0.0.4:9001"]


@pytest.mark.parametrize(
    ("flags", "count", "ips", "said"),
    [
        ({}, 0, "", "not between 1 and"),
        ({}, MAX_WORKERS + 1, "", "not between 1 and"),
        ({"broker__id": 2**31 - 1}, 2, "", "beyond 2147483647"),
        ({"broker__listen": "127.0.0.1:65535"}, 2, "", "worker-1 would have port 65536, 1 beyond broker.listen"),
        ({"broker__listen": "127.0.0.1:8080"}, 3, "", "broker.listen of worker-1 would be 127.0.0.1:8081"),
        ({}, 2, "127.0.0.1", "names 1 addresses for 2 workers"),
        ({}, 2, "127.0.0.1,host", "'host' is not an IPv4 address"),
        ({"broker__listen": "localhost:1"}, 2, "spread", "'localhost' is not an IPv4 address"),
        ({"broker__advertised": "a:1"}, 2, "spread", "both have the workers"),
        ({}, 2, "127.0.0.1,192.168.7.7", "beyond this machine"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_named(flags: dict[str, object], count: int, ips: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        plan_workers(settings(**flags), count, ips=ips)
    assert refused.value.hint


def test_addresses_beyond_the_last_are_refused() -> None:
    with pytest.raises(ConfigError, match="go beyond the last"):
        plan_workers(settings(broker__listen="255.255.255.255:1", insecure=True), 2, ips="spread")


@pytest.mark.parametrize("place", ["broker-7", "broker-8", "worker-1/broker-7", "worker-0/broker-8"])
def test_workers_do_not_start_beside_a_directory_of_one_of_their_brokers(tmp_path: Path, place: str) -> None:
    base = settings(data=str(tmp_path), broker__id=7)
    plans = plan_workers(base, 2)
    for other in ("broker-9", "worker-0/broker-7", "worker-1/broker-8", "master"):
        (tmp_path / other).mkdir(parents=True)
    check_directories(base, plans)
    own = tmp_path / ("worker-0" if place.endswith("7") else "worker-1")
    (tmp_path / place).mkdir(parents=True)
    with pytest.raises(ConfigError) as refused:
        check_directories(base, plans)
    assert refused.value.message.startswith(f"{tmp_path / place} has the data of Broker {place[-1]}")
    assert refused.value.hint is not None
    assert "start without --workers" in refused.value.hint
    assert "move it away" in refused.value.hint
    (own / f"broker-{place[-1]}").rmdir()
    with pytest.raises(ConfigError) as refused:
        check_directories(base, plans)
    assert refused.value.hint is not None
    assert f"move it into {own}" in refused.value.hint
