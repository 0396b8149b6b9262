"""Addresses in settings: parsed, and checked for what the protocol can carry."""

from __future__ import annotations

import ipaddress

from pytubemq.errors import ConfigError, FormatError
from pytubemq.model.ids import Address


def parse_address(key: str, text: str, *, default_port: int) -> Address:
    """Return the address in the setting `key`.

    Raises:
        ConfigError: it is not an address.
    """
    try:
        return Address.parse(text, default_port=default_port)
    except FormatError as error:
        raise ConfigError(f"{key} = {text!r} is not an address", hint=error.hint) from error


def check_version(key: str, text: str, address: Address) -> None:
    """Refuse an IPv6 address: the protocol writes addresses as host:port between colons and has no form for it."""
    if ":" in address.host:
        raise ConfigError(
            f"{key} = {text!r} is an IPv6 address, which the protocol cannot carry",
            hint="give an IPv4 address, or a host name that has one",
        )


def is_loopback(host: str) -> bool:
    """True if a listening host is this machine's own, reachable from nowhere else."""
    return host == "localhost" or (is_ip(host) and ipaddress.ip_address(host).is_loopback)


def is_ip(host: str) -> bool:
    """True if a host is given as an address and not as a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
