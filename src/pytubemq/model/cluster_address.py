"""The address of a cluster: its Masters, and the TLS options of connections to it.

The invariant: equal addresses can share connections; a text that is accepted has at least one Master.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final
from urllib.parse import parse_qsl, urlencode

from pytubemq.errors import ConfigError, FormatError
from pytubemq.model.ids import DEFAULT_MASTER_PORT, DEFAULT_MASTER_TLS_PORT, Address
from pytubemq.model.names import shown
from pytubemq.model.suggest import suggest
from pytubemq.model.tls_options import TlsOptions

_SCHEME: Final = "tls://"
_OPTIONS: Final = tuple(one.name for one in fields(TlsOptions))
_FORM: Final = "tls://host:port[,host:port...]?ca=FILE[&cert=FILE&key=FILE][&server_name=NAME]"


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """The Masters of a cluster; `tls` None is plain."""

    masters: tuple[Address, ...]
    tls: TlsOptions | None = None

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        hosts = ",".join(map(str, self.masters))
        if self.tls is None:
            return hosts
        given = {name: value for name in _OPTIONS if (value := getattr(self.tls, name)) is not None}
        return f"{_SCHEME}{hosts}?{urlencode(given, safe='/:')}"

    @classmethod
    def parse(cls, text: str, *, tls: TlsOptions | None = None) -> ClusterAddress:
        """Parse `host:port[,host:port...]`, or `tls://` before and `?ca=FILE` with other TLS options behind.

        The port may be left out: 8715, or 8716 over TLS.

        Args:
            text: the address.
            tls: options given beside it.

        Raises:
            FormatError: it is malformed.
            ConfigError: it names no Master, no CA, or has TLS options while others are given beside it.
        """
        text = text.strip()
        if text.startswith(_SCHEME):
            text, _, query = text.removeprefix(_SCHEME).partition("?")
            if query and tls is not None:
                raise ConfigError(
                    "TLS options are given twice", hint=f"leave out those in the address: {_SCHEME}{text}"
                )
            tls = tls or _options(query)
        elif "://" in text:
            raise FormatError(
                f"not the address of a Master: {shown(text)}",
                hint=f"write host:port, without http://; or over TLS {_FORM}",
            )
        port = DEFAULT_MASTER_PORT if tls is None else DEFAULT_MASTER_TLS_PORT
        masters = tuple(Address.parse(item, default_port=port) for item in text.split(",") if item.strip())
        if not masters:
            raise ConfigError(
                "no Master address given", hint="write host:port[,host:port...], for example 127.0.0.1:8715"
            )
        return cls(masters, tls)


def _options(query: str) -> TlsOptions:
    given = dict(parse_qsl(query, keep_blank_values=True))
    for name in given:
        if name not in _OPTIONS:
            close = suggest(name, _OPTIONS)
            raise ConfigError(
                f"the address of the cluster has an unknown option {shown(name)}",
                hint=f"did you mean {close}?" if close else f"write {_FORM}",
            )
    if not given.get("ca"):
        raise ConfigError("the address of the cluster names no CA", hint=f"write {_FORM}")
    return TlsOptions(**given)
