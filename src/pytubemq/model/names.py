"""Rules for names (topics, groups, clients, users, hosts, Broker ids and ports), and the escaping of foreign text.

The invariant: every name that comes from a peer, a file, HTTP or the command line passes one of these checks before it
becomes a path, a key, a label, a line or a part of a string that is split again. A name that is created must have the
strict form, which every peer accepts. A name that is only used may be any that Java, C++ and Go peers have, but holds
nothing that a terminal or a log obeys: no control character, line break, bidirectional mark or lone surrogate.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address
from typing import Final

from pytubemq.errors import FormatError, MessageError
from pytubemq.model.limits import MAX_FILE_NAME_BYTES, MAX_HOST_CHARS, MAX_SHOWN_CHARS

MAX_BROKER_ID: Final = 2**31 - 1
"""Broker ids are Java's positive ints."""
MAX_PORT: Final = 65_535

_NEW_TOPIC: Final = re.compile(r"[a-zA-Z]\w{0,63}", re.ASCII)
_NEW_GROUP: Final = re.compile(r"[a-zA-Z][\w-]{0,1023}", re.ASCII)
_SERVED_TOPIC: Final = re.compile(r"[A-Za-z_][\w-]{0,63}", re.ASCII)
_DNS_LABEL: Final = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)", re.ASCII)
_IPV6_ZONE: Final = re.compile(r"[A-Za-z0-9._-]{1,32}", re.ASCII)
_THIS_NETWORK: Final = IPv4Network("0.0.0.0/8")
_NO_CHILD: Final = frozenset({"", ".", ".."})
_UNPRINTABLE: Final = re.compile(r"[^ -~]")
_UNPRINTABLE_JSON: Final = re.compile(r"[^ -~\n]")


# --- new names ----------------------------------------------------------------------------------------------------


def check_topic(name: str) -> str:
    """Return a name under which a topic can be created: a letter, then letters, digits or `_`, at most 64 in all.

    Raises:
        MessageError: 400, the name is invalid.
    """
    if not _NEW_TOPIC.fullmatch(name):
        raise MessageError(
            f"not a topic name: {shown(name)}",
            hint="use a letter, then letters, digits or _, at most 64 characters",
            code=400,
        )
    return name


def check_group(name: str) -> str:
    """Return a group name that every peer accepts: a letter, then letters, digits, `_` or `-`.

    Raises:
        MessageError: 400, the name is invalid.
    """
    if not _NEW_GROUP.fullmatch(name):
        raise MessageError(
            f"not a group name: {shown(name)}", hint="use a letter, then letters, digits, _ or -", code=400
        )
    return name


# --- existing names -----------------------------------------------------------------------------------------------


def check_served_topic(name: str) -> str:
    """Return the name of a topic that a Broker may hold, whose data is in a directory of this name.

    The form is wider than that of a new topic: TubeMQ's own topic begins with `_`.

    Raises:
        FormatError: the name is invalid.
    """
    if not is_served_topic(name):
        raise FormatError(
            f"not a topic name: {shown(name)}", hint="use a letter or _, then letters, digits, _ or -, at most 64"
        )
    return name


def is_served_topic(name: str) -> bool:
    """True if `check_served_topic` accepts the name."""
    return _SERVED_TOPIC.fullmatch(name) is not None


def is_file_name(name: str) -> bool:
    """True if the name can be that of a file in a directory, and not a path, on every operating system."""
    if name in _NO_CHILD or "/" in name or "\\" in name or not is_plain(name) or len(name) > MAX_FILE_NAME_BYTES:
        return False
    return len(name.encode()) <= MAX_FILE_NAME_BYTES


is_plain: Final = str.isprintable
"""True if the text holds no control character, line break, bidirectional mark or lone surrogate. A method
written in C, because each request needs it several times."""


def unplain(text: str, what: str) -> str:
    """Return the error text for a name that is not plain."""
    return f"{what} {shown(text)} has a control character, a line break or a mark that hides text in it; give another"


def check_host(host: str) -> str:
    """Return a host without brackets: an IPv4 or IPv6 address, or a name of DNS labels.

    Raises:
        FormatError: the host is invalid.
    """
    if not is_host(host):
        raise FormatError(f"not a host: {shown(host)}", hint="use an IPv4 or IPv6 address, or a DNS name")
    return host


def check_broker_host(host: str) -> str:
    """Return the host of a Broker that every client can read and connect to: an IPv4 address or a DNS name.

    Raises:
        FormatError: the host is invalid, an IPv6 address, or an address that is no single machine's.
    """
    if ":" in check_host(host):
        raise FormatError(
            f"the host {shown(host)} is an IPv6 address, and Java clients divide a Broker's address at each colon",
            hint="use an IPv4 address, or a DNS name that has one",
        )
    if not host.rpartition(".")[2].isdigit():
        return host
    address = IPv4Address(host)
    if address.is_multicast or address.is_reserved or address in _THIS_NETWORK:
        raise FormatError(
            f"no client can connect to {host}: it is an unspecified, multicast, broadcast or reserved address",
            hint="use the address or the DNS name at which clients reach this Broker",
        )
    return host


@lru_cache(1024)  # lists name the same few hosts again and again
def is_host(host: str) -> bool:
    """True if `check_host` accepts the host."""
    return 0 < len(host) <= MAX_HOST_CHARS and (_is_ipv6(host) if ":" in host else _is_ipv4_or_name(host))


def check_broker_id(broker_id: int) -> int:
    """Return the id of a Broker, 1 to 2^31 - 1.

    Raises:
        FormatError: the id is out of range.
    """
    if not 0 < broker_id <= MAX_BROKER_ID:
        raise FormatError(f"not the id of a Broker: {broker_id}", hint=f"use a number from 1 to {MAX_BROKER_ID}")
    return broker_id


def check_port(port: int, *, what: str = "port") -> int:
    """Return a TCP port that can be connected to, 1 to 65535.

    Raises:
        FormatError: the port is out of range.
    """
    if not 0 < port <= MAX_PORT:
        raise FormatError(f"not a {what}: {port}", hint=f"use a number from 1 to {MAX_PORT}")
    return port


# --- escaping of foreign text -------------------------------------------------------------------------------------


def escaped(text: str) -> str:
    r"""Return the text with all that a terminal or a log would obey escaped, as `\n`, `\x1b` or `\u202e`."""
    return text if text.isprintable() else _UNPRINTABLE.sub(_escape, text)


def escaped_text(text: str) -> str:
    """Return a text of several lines, escaped line by line."""
    return text if text.isprintable() else "\n".join(map(escaped, text.split("\n")))


def escaped_json(text: str) -> str:
    r"""Return an equivalent JSON text with all that a terminal would obey escaped, as `\u202e`.

    Line breaks stay, because in JSON they occur only between values.
    """
    return text if text.isprintable() else _UNPRINTABLE_JSON.sub(_escape_json, text)


def shown(text: str, most: int = MAX_SHOWN_CHARS) -> str:
    """Return foreign text for an error or a log line: quoted, escaped, and then cut to `most` characters."""
    kept = text[:most]
    while len(repr(kept)) > most + 2:  # escaping makes up to ten characters of one
        kept = kept[: len(kept) * most // len(repr(kept))]
    return repr(text) if kept == text else f"{kept!r}... ({len(text)} characters)"


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def _escape_json(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _is_ipv4_or_name(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    if labels[-1].isdigit():  # no top-level domain is a number: it is an address, or nothing
        try:
            IPv4Address(host)
        except AddressValueError:
            return False
        return True
    return all(_DNS_LABEL.fullmatch(label) for label in labels)


def _is_ipv6(host: str) -> bool:
    address, _, zone = host.partition("%")
    try:
        IPv6Address(address)
    except AddressValueError:
        return False
    return "%" not in host or _IPV6_ZONE.fullmatch(zone) is not None
