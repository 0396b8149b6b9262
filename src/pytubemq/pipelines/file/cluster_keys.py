"""The address of a cluster that keys of a pipeline name, with the user to connect as.

The invariant: of a secret there is only the path of its file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytubemq.model.cluster_address import ClusterAddress, ClusterUser
from pytubemq.pipelines.file.secrets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.pipelines.file.model import ClusterKeys, DeadLetter, Sink, Source


def address_of(keys: ClusterKeys, text_of: Callable[[str], str] = resolve) -> ClusterAddress:
    """Return the address that keys stand for, their references resolved.

    Raises:
        FormatError: the Masters' address is malformed.
        ConfigError: no Master is named, a user has no secret file or the other way round, or a reference has no value.
    """
    named = keys.user or keys.secret_file
    user = ClusterUser(text_of(keys.user or ""), text_of(keys.secret_file or "")) if named else None
    return ClusterAddress.parse(text_of(keys.master or ""), user=user)


def without_user(address: str) -> str:
    """Return the text of an address without the user in it."""
    return str(replace(ClusterAddress.parse(address), user=None))


def user_options(spec: Source | Sink | DeadLetter) -> dict[str, str]:
    """Return the options by which Spark's source and sink get the user; empty without one."""
    given = {"user": spec.user, "secretFile": spec.secret_file}
    return {name: resolve(text, secret=name != "user") for name, text in given.items() if text}
