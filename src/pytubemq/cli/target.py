"""Which cluster a command works with.

The invariant: an option wins over a profile that was named, that over the current profile, that over this machine's
default ports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.model.ids import DEFAULT_MASTER_PORT
from pytubemq.server.profiles import Profile, read_profiles

if TYPE_CHECKING:
    from pytubemq.cli.options import GlobalOptions

LOCAL = Profile("local", f"127.0.0.1:{DEFAULT_MASTER_PORT}", "http://127.0.0.1:8080")


def find_profile(options: GlobalOptions) -> Profile:
    """The named profile, the current one, or this machine's default ports.

    Raises:
        ConfigError: the named one does not exist.
    """
    profiles = read_profiles()
    if options.profile:
        return profiles.get(options.profile)
    if profiles.current in profiles.by_name:
        return profiles.by_name[profiles.current]
    return LOCAL


def masters(options: GlobalOptions, master: str | None) -> str:
    """`host:port[,...]` of the Masters."""
    return master or find_profile(options).master


def http_url(options: GlobalOptions, http: str | None) -> str:
    """URL of the JSON API."""
    url = http or find_profile(options).http
    return url if "://" in url else f"http://{url}"
