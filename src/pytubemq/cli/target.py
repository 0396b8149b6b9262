"""The cluster that a command works with.

The invariant: an option wins over a profile that was named, that over the current profile, that over this machine's
default ports.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytubemq.cli.api import Api, with_scheme
from pytubemq.cli.api_address import ApiAddress, absolute_file
from pytubemq.client.client_credentials import USER_VARIABLE
from pytubemq.errors import ConfigError, RemoteError, TransportError, UnreachableError
from pytubemq.model.cluster_address import ClusterAddress, ClusterUser
from pytubemq.model.ids import DEFAULT_MASTER_PORT
from pytubemq.server.profiles import Profile, read_profiles

if TYPE_CHECKING:
    from pytubemq.cli.options import GlobalOptions
    from pytubemq.errors import TubeError

DEV: Final = "dev"
"""The profile of `pytubemq dev`: the one that a person on this machine most likely means."""
DEV_DATA: Final = Path("tubemq-dev")
"""The default data directory of `pytubemq dev`."""
LOCAL = Profile("local", f"127.0.0.1:{DEFAULT_MASTER_PORT}", "http://127.0.0.1:8080")


def find_profile(options: GlobalOptions) -> Profile:
    """Return the named profile, the current one, or this machine's default ports.

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
    """Return the address of the cluster: its Masters, with the user of the options if there is one.

    Raises:
        ConfigError: a user has no secret file, or a secret file no user; the address is malformed.
    """
    text = master or _chosen(options).master
    if options.user is None and options.secret_file is None:
        _note_other_user(options, text)
        return text
    file = options.secret_file and absolute_file(options.secret_file)
    user = ClusterUser(options.user or "", file or "")
    address = ClusterAddress.parse(text)
    if master and address.user is not None:
        raise ConfigError("the user is given twice", hint="leave out --user, or the user in --master")
    return str(replace(address, user=user))


def _note_other_user(options: GlobalOptions, master: str) -> None:
    """Say that the user of the address counts, where the environment names another one."""
    named = os.environ.get(USER_VARIABLE, "").strip()
    user = ClusterAddress.parse(master).user if named else None
    if user is not None and user.user != named:
        options.say(f"note: the address names user {user.user}, which counts before {USER_VARIABLE}={named}")


def with_absolute_files(master: str) -> str:
    """Return the address of a cluster as it works from every directory; unchanged if it does already."""
    address = ClusterAddress.parse(master)
    tls, user = address.tls, address.user
    if tls is not None:
        tls = replace(
            tls,
            ca=absolute_file(tls.ca),
            cert=tls.cert and absolute_file(tls.cert),
            key=tls.key and absolute_file(tls.key),
        )
    if user is not None:
        user = replace(user, secret_file=absolute_file(user.secret_file))
    found = replace(address, tls=tls, user=user)
    return master if found == address else str(found)


def shown_masters(master: str) -> str:
    """Return the Masters' addresses alone, for a message."""
    return master.removeprefix("tls://").partition("?")[0]


def http_url(options: GlobalOptions, http: str | None) -> str:
    """Return the URL of the JSON API."""
    return with_scheme(http or _chosen(options).http)


def open_api(options: GlobalOptions, http: str | None, *, extra_s: float = 0.0) -> Api:
    """Return a client of the JSON API; a request may take `extra_s` longer than the usual timeout."""
    return Api(http_url(options, http), timeout_s=options.timeout_s + extra_s)


def http_with_absolute_files(http: str) -> str:
    """Return the JSON API's URL as it works from every directory; unchanged if it does already."""
    address = ApiAddress.parse(with_scheme(http))
    found = address.with_absolute_files()
    return http if found == address else str(found)


def same_cluster(options: GlobalOptions, master: str | None) -> str:
    """Return the options by which a command for the JSON API finds the cluster of this one; blank for none.

    Where only Masters were named, the address of their JSON API is unknown: the user has to fill it in.
    """
    if master:
        return " --http URL"
    return f" -P {shlex.quote(options.profile)}" if options.profile else ""


def profile_hint(error: TubeError, options: GlobalOptions) -> str | None:
    """Return the hint of an error, which names the profile that a server's address comes from.

    A user who gave no address does not know it, and needs another profile rather than another cluster.
    """
    chosen = options.chosen
    if chosen is None or not isinstance(error, TransportError | RemoteError):
        return error.hint
    if not any(names(error.message, address) for address in (*_hosts(chosen.master), chosen.http.partition("?")[0])):
        return error.hint
    if chosen is LOCAL:
        return _no_profile_hint(error)
    whose = f"the address is that of profile {chosen.name!r}"
    profiles = read_profiles()
    others = sorted(set(profiles.by_name) - {chosen.name}, key=lambda name: (name != DEV, name))
    if not isinstance(error, UnreachableError):
        return whose if error.hint is None else f"{error.hint}; {whose}"
    if chosen.data:
        whose += f"; start it:  {_start_of(chosen)}"
    if not others:
        if chosen.data:
            return whose
        return f"{whose}; check that its cluster runs, or give another address (`pytubemq profile add`)"
    if options.profile:
        return f"{whose}, which -P or PYTUBEMQ_PROFILE names; there are also: {', '.join(others)}"
    return f"{whose}; for another one:  pytubemq profile use {others[0]}"


def _no_profile_hint(error: TubeError) -> str | None:
    """Return the hint of an error where no profile is current, though there are some."""
    known = sorted(read_profiles().by_name, key=lambda name: (name != DEV, name))
    if not known or not isinstance(error, UnreachableError):
        return error.hint
    default = "no profile is current, so this is a default port of this machine"
    return f"{default}; choose one:  pytubemq profile use {known[0]}"


def _hosts(master: str) -> list[str]:
    """Return each Master's `host:port` in a profile."""
    return shown_masters(master).split(",")


def _start_of(profile: Profile) -> str:
    """Return the command that runs a cluster of `pytubemq dev` again, with its directory if that is not the default."""
    data = Path(profile.data)
    if not data.is_dir() or data.resolve() == DEV_DATA.resolve():
        return "pytubemq dev"
    return f"pytubemq dev --data {shlex.quote(profile.data)}"


def names(text: str, address: str) -> bool:
    """True if a text has this address in it, and not only a longer one."""
    return bool(address.strip()) and re.search(rf"{re.escape(address.strip())}(?![\w.-])", text) is not None


def _chosen(options: GlobalOptions) -> Profile:
    options.chosen = find_profile(options)
    return options.chosen
