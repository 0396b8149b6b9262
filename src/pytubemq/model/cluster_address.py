"""The address of a cluster: its Masters, the TLS options of connections to it, and the user to connect as.

The invariants: equal addresses can share connections; a text that is accepted has at least one Master, and no secret.
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


@dataclass(frozen=True, slots=True)
class ClusterUser:
    """The user that a client connects as, and the file with its secret on the first line.

    There is nothing secret in it, so it may be sent to another process, and be shown.

    Args:
        user: its name.
        secret_file: the path of the file, which only its owner may read.
    """

    user: str
    secret_file: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "user", self.user.strip())
        object.__setattr__(self, "secret_file", str(self.secret_file).strip())
        if not self.user:
            raise ConfigError("a secret file is given, and no user", hint="name the user that the secret belongs to")
        if not self.secret_file:
            raise ConfigError(
                f"the user {self.user!r} is given, and no secret file",
                hint="name the file with the secret that `pytubemq user create` printed",
            )


_SCHEME: Final = "tls://"
_TLS: Final = tuple(one.name for one in fields(TlsOptions))
_USER: Final = tuple(one.name for one in fields(ClusterUser))
_PLAIN_FORM: Final = "host:port[,host:port...][?user=NAME&secret_file=FILE]"
_FORM: Final = "tls://host:port[,host:port...]?ca=FILE[&cert=FILE&key=FILE][&server_name=NAME]"


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """The Masters of a cluster; `tls` None is plain, `user` None leaves the user to the environment."""

    masters: tuple[Address, ...]
    tls: TlsOptions | None = None
    user: ClusterUser | None = None

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        hosts = ",".join(map(str, self.masters))
        given: dict[str, str] = {}
        for options in (self.tls, self.user):
            names = [] if options is None else [one.name for one in fields(options)]
            given |= {name: value for name in names if (value := getattr(options, name)) is not None}
        text = hosts if self.tls is None else f"{_SCHEME}{hosts}"
        return f"{text}?{urlencode(given, safe='/:')}" if given else text

    @classmethod
    def parse(cls, text: str, *, tls: TlsOptions | None = None, user: ClusterUser | None = None) -> ClusterAddress:
        """Parse `host:port[,host:port...]`, or `tls://` before and `?ca=FILE` with other TLS options behind.

        The port may be left out: 8715, or 8716 over TLS. Both take `user=NAME&secret_file=FILE` behind the `?`.

        Args:
            text: the address.
            tls: options given beside it.
            user: the user given beside it.

        Raises:
            FormatError: it is malformed.
            ConfigError: it names no Master, no CA, a user without a file, or has options that are given beside it, too.
        """
        text, _, query = text.strip().partition("?")
        over_tls = text.startswith(_SCHEME)
        text = text.removeprefix(_SCHEME)
        if "://" in text:
            raise FormatError(
                f"not the address of a Master: {shown(text)}",
                hint=f"write host:port, without http://; or over TLS {_FORM}",
            )
        if "@" in text:  # it may hold a secret, so it is not shown
            raise FormatError("the address of the cluster has an @ in it", hint=f"name the user so: {_PLAIN_FORM}")
        given = _given(query, over_tls=over_tls)
        found_tls = {name: given[name] for name in _TLS if name in given}
        found_user = {name: given[name] for name in _USER if name in given}
        if found_tls and tls is not None:
            raise ConfigError("TLS options are given twice", hint=f"leave out those in the address: {_SCHEME}{text}")
        if found_user and user is not None:
            raise ConfigError("the user is given twice", hint="leave out the one in the address")
        if over_tls and tls is None:
            if not found_tls.get("ca"):
                raise ConfigError("the address of the cluster names no CA", hint=f"write {_FORM}")
            tls = TlsOptions(**found_tls)
        if found_user:
            user = ClusterUser(found_user.get("user", ""), found_user.get("secret_file", ""))
        return cls(_masters(text, DEFAULT_MASTER_PORT if tls is None else DEFAULT_MASTER_TLS_PORT), tls, user)


def _masters(text: str, port: int) -> tuple[Address, ...]:
    masters = tuple(Address.parse(item, default_port=port) for item in text.split(",") if item.strip())
    if not masters:
        raise ConfigError("no Master address given", hint="write host:port[,host:port...], for example 127.0.0.1:8715")
    return masters


def _given(query: str, *, over_tls: bool) -> dict[str, str]:
    """Return the options behind the `?` by name; a value is in no error, since it may be a secret."""
    given = dict(parse_qsl(query, keep_blank_values=True))
    known, form = ((*_TLS, *_USER), _FORM) if over_tls else (_USER, _PLAIN_FORM)
    for name in given:
        if name == "secret":
            raise ConfigError(
                "the address of the cluster has a secret in it, where others can read it",
                hint=f"put the secret into a file of mode 0600 and write {_PLAIN_FORM}",
            )
        if name in known:
            continue
        if name in _TLS:
            raise ConfigError(f"the address of the cluster has {name} without tls:// before it", hint=f"write {_FORM}")
        close = suggest(name, known)
        raise ConfigError(
            f"the address of the cluster has an unknown option {shown(name)}",
            hint=f"did you mean {close}?" if close else f"write {form}",
        )
    return given
