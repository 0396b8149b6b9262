"""The address of the JSON API on the command line: its URL, and behind it the files that a client of it needs.

The invariant: an address that is accepted has no secret in it, and no error shows what may be one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from pytubemq.errors import ConfigError
from pytubemq.model.names import shown
from pytubemq.model.suggest import suggest

_FORM: Final = "https://host:port?ca=FILE[&token_file=FILE]"
_PLAIN_FORM: Final = "http://host:port[?token_file=FILE]"
_EXAMPLE: Final = "for example http://127.0.0.1:8080"
_SECRETS: Final = frozenset({"token", "password", "secret"})


@dataclass(frozen=True, slots=True)
class ApiAddress:
    """The address of the JSON API; `ca` None leaves the CAs of an https URL to the environment."""

    url: str
    """The URL without options."""
    host: str
    port: int
    is_tls: bool
    ca: str | None = None
    token_file: str | None = None

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        options = {"ca": self.ca, "token_file": self.token_file}
        given = {name: value for name, value in options.items() if value is not None}
        return f"{self.url}?{urlencode(given, safe='/:')}" if given else self.url

    @classmethod
    def parse(cls, text: str) -> ApiAddress:
        """Parse `http://host:port` or `https://host:port`, with `?ca=FILE&token_file=FILE` behind it.

        Raises:
            ConfigError: it is malformed, has an unknown option, or a secret.
        """
        url, _, query = text.strip().partition("?")
        if "@" in url:  # it may hold a password, so it is not shown
            raise ConfigError(
                "the URL of the JSON API has an @ in it",
                hint=f"a user is identified by a token, whose file is named so: {_FORM}",
            )
        parts = _split(url)
        is_tls = parts.scheme == "https"
        given = _given(query, is_tls=is_tls)
        return cls(
            url, parts.hostname or "", parts.port or (443 if is_tls else 80), is_tls,
            given.get("ca") or None, given.get("token_file") or None,
        )  # fmt: skip

    def with_absolute_files(self) -> ApiAddress:
        """Return the address as it works from every directory."""
        return replace(
            self,
            ca=self.ca and absolute_file(self.ca),
            token_file=self.token_file and absolute_file(self.token_file),
        )


def absolute_file(path: str) -> str:
    """Return the path of a file as it works from every directory."""
    return str(Path(path).expanduser().absolute())


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"not a URL of the JSON API: {shown(url)}", hint=_EXAMPLE)
    return parts


def _given(query: str, *, is_tls: bool) -> dict[str, str]:
    """Return the options behind the `?` by name; a value is in no error, since it may be a secret."""
    given = {name: value.strip() for name, value in parse_qsl(query, keep_blank_values=True)}
    known, form = (("ca", "token_file"), _FORM) if is_tls else (("token_file",), _PLAIN_FORM)
    for name in given:
        if name in known:
            continue
        if name in _SECRETS:
            raise ConfigError(
                "the URL of the JSON API has a secret in it, where others can read it",
                hint=f"put the token into a file of mode 0600 and write {form}, or set PYTUBEMQ_TOKEN",
            )
        if name == "ca":
            raise ConfigError("the URL of the JSON API has ca without https:// before it", hint=f"write {_FORM}")
        close = suggest(name, known)
        raise ConfigError(
            f"the URL of the JSON API has an unknown option {shown(name)}",
            hint=f"did you mean {close}?" if close else f"write {form}",
        )
    return given
