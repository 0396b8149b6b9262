"""The settings of each of several Brokers on one machine.

The invariant: worker k differs from the original settings only as it must: in its id, its ports and its directory, and
in its address if that was requested. No two listen on the same address.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import TYPE_CHECKING, Final

import msgspec

from pytubemq.errors import ConfigError
from pytubemq.model.ids import DEFAULT_BROKER_PORT, Address
from pytubemq.model.limits import MAX_WORKERS
from pytubemq.server.sections.addresses import parse_address
from pytubemq.server.sections.broker import DEFAULT_BROKER_HTTP_PORT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.server.sections.broker import BrokerSection
    from pytubemq.server.settings import Settings

SPREAD: Final = "spread"
"""The value of `--worker-ip` for the address of `broker.listen`, and those that follow it."""
_LAST_ID: Final = 2**31 - 1
_LAST_PORT: Final = 65_535
_LAST_IP: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Plan:
    """One worker."""

    name: str
    settings: Settings


def plan_workers(settings: Settings, count: int, *, ips: str = "") -> list[Plan]:
    """Return the settings of each worker, from those of the first.

    Args:
        settings: those of `pytubemq server run broker`.
        count: the number of workers.
        ips: SPREAD, or an IPv4 address for each worker between commas; empty: all at the host of `broker.listen`.

    Raises:
        ConfigError: an id, a port or an address that cannot be, or that two of them would have.
    """
    if not 1 <= count <= MAX_WORKERS:
        raise ConfigError(f"--workers {count} is not between 1 and {MAX_WORKERS}", hint="one for each processor core")
    section = settings.broker
    if section.id + count - 1 > _LAST_ID:
        raise ConfigError(
            f"{count} workers from broker.id = {section.id} on would go beyond {_LAST_ID}", hint="set a lower broker.id"
        )
    hosts = _hosts(section, count, ips)
    plans = [_plan(settings, number, host) for number, host in enumerate(hosts)]
    _check_apart(plans)
    return plans


def check_directories(settings: Settings, plans: Sequence[Plan]) -> None:
    """Refuse to start workers whose Brokers have messages in another directory, where they would not be found.

    Args:
        settings: those that the workers were planned from.
        plans: all workers.

    Raises:
        ConfigError: the directory of a worker's Broker exists outside of the worker's own.
    """
    places = [settings.data_dir, *(plan.settings.data_dir for plan in plans)]
    for plan in plans:
        name = f"broker-{plan.settings.broker.id}"
        own = plan.settings.data_dir
        for place in places:
            if place != own and (place / name).is_dir():
                raise ConfigError(
                    f"{place / name} has the data of Broker {plan.settings.broker.id}, and {plan.name} would not "
                    f"find it: its directory is {own / name}",
                    hint="start without --workers; or, while nothing runs, move it "
                    + ("away if it is not needed any more" if (own / name).exists() else f"into {own}")
                    + " (docs/how-to/more-cores.md)",
                )


def _plan(settings: Settings, number: int, host: str | None) -> Plan:
    section = settings.broker
    name = f"worker-{number}"
    listen = parse_address("broker.listen", section.listen, default_port=DEFAULT_BROKER_PORT)
    changes: dict[str, object] = {
        "id": section.id + number,
        "listen": str(_moved("broker.listen", Address(host or listen.host, listen.port), number)),
        "tls_port": section.tls_port and _port("broker.tls_port", section.tls_port, number),
    }
    for key, default_port in (("advertised", DEFAULT_BROKER_PORT), ("http_listen", DEFAULT_BROKER_HTTP_PORT)):
        text = getattr(section, key)
        if text:
            address = parse_address(f"broker.{key}", text, default_port=default_port)
            changes[key] = str(_moved(f"broker.{key}", address, number))
    broker = msgspec.structs.replace(section, **changes)
    data = str(settings.data_dir / name)
    return Plan(name, msgspec.structs.replace(settings, broker=broker, data=data).check())


def _moved(key: str, address: Address, number: int) -> Address:
    """Return the address `number` ports further on; any free port stays any free port."""
    return address if not address.port else Address(address.host, _port(key, address.port, number))


def _port(key: str, port: int, number: int) -> int:
    if port + number > _LAST_PORT:
        raise ConfigError(
            f"worker-{number} would have port {port + number}, {number} beyond {key}", hint=f"set a lower port in {key}"
        )
    return port + number


def _hosts(section: BrokerSection, count: int, ips: str) -> list[str | None]:
    if not ips:
        return [None] * count
    if section.advertised:
        raise ConfigError(
            "--worker-ip and broker.advertised both have the workers' addresses",
            hint="leave one of them out; with --worker-ip each advertises the address it listens on",
        )
    if ips.strip() == SPREAD:
        host = parse_address("broker.listen", section.listen, default_port=DEFAULT_BROKER_PORT).host
        first = int(_ipv4(host, f"broker.listen = {section.listen!r}"))
        if first + count - 1 > _LAST_IP:
            raise ConfigError(f"{count} addresses from {host} on go beyond the last IPv4 address", hint="name them")
        return [str(IPv4Address(first + number)) for number in range(count)]
    found = [str(_ipv4(text.strip(), "--worker-ip")) for text in ips.split(",")]
    if len(found) != count:
        raise ConfigError(
            f"--worker-ip names {len(found)} addresses for {count} workers", hint=f"name {count}, or write {SPREAD}"
        )
    return list(found)


def _ipv4(text: str, where: str) -> IPv4Address:
    try:
        return IPv4Address(text)
    except AddressValueError:
        raise ConfigError(
            f"{where}: {text!r} is not an IPv4 address",
            hint="write one such as 127.0.0.1: the workers get the addresses that follow it",
        ) from None


def _check_apart(plans: list[Plan]) -> None:
    """Check that all listening addresses are different."""
    taken: dict[Address, str] = {}
    for plan in plans:
        section = plan.settings.broker
        for key, text in (("listen", section.listen), ("http_listen", section.http_listen)):
            if not text:
                continue
            address = parse_address(f"broker.{key}", text, default_port=0)
            mine = f"broker.{key} of {plan.name}"
            if address.port and address in taken:
                raise ConfigError(
                    f"{mine} would be {address}, which is {taken[address]}",
                    hint="set broker.listen and broker.http_listen further apart than there are workers",
                )
            taken[address] = mine
