"""The string of a Broker: `brokerId:host:port`.

The invariant: `parse_x(format_x(value)) == value`, and a string of a peer gives its value or FormatError with the
string in it, never another error. A peer may leave the port blank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import FormatError
from pytubemq.model.ids import DEFAULT_BROKER_PORT, Address, BrokerInfo
from pytubemq.wire.text.string_parts import host_text, malformed, number_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_BROKER_SHAPE: Final = "brokerId:host:port"


def parse_broker_info(text: str, *, default_port: int = DEFAULT_BROKER_PORT) -> BrokerInfo:
    """Parse `brokerId:host:port`; a blank or missing port is the default one.

    Raises:
        FormatError: it is not a Broker, or no peer could connect to it.
    """
    # Only blanks: the port may be one. A line break is a fault, which `check` finds.
    head, _, rest = text.strip(" ").partition(":")
    host, colon, port = rest.rpartition(":")
    if not colon or (host.strip().startswith("[") and "]" in port):  # a bare IPv6 address in brackets
        host, port = rest, ""
    broker_id = number_of(head, text, "a Broker", _BROKER_SHAPE)
    # Blank is how the original writes its default port: 8123, or 8124 in the list for TLS.
    port_number = default_port if not port.strip() else number_of(port, text, "a Broker", _BROKER_SHAPE)
    broker = BrokerInfo(broker_id, Address(host.strip().removeprefix("[").removesuffix("]"), port_number))
    try:
        return broker.check()
    except FormatError as error:
        raise malformed("a Broker", text, _BROKER_SHAPE, why=error.message) from error


def format_broker_info(broker: BrokerInfo, *, default_port: int = DEFAULT_BROKER_PORT) -> str:
    """Format `brokerId:host:port`, the default port as one blank, as the original writes it."""
    port = " " if broker.address.port == default_port else str(broker.address.port)
    return f"{broker.broker_id}:{host_text(broker.address)}:{port}"


def format_broker_infos(brokers: Iterable[BrokerInfo], *, default_port: int = DEFAULT_BROKER_PORT) -> tuple[str, ...]:
    """Format the list for a message, by id."""
    # In order, so that the same Brokers are the same text.
    ordered = sorted(brokers)
    return tuple([format_broker_info(broker, default_port=default_port) for broker in ordered])
