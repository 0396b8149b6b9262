"""Changes of users that lock out a registered Broker, or leave nobody who may administer the cluster.

The invariant: a change that does neither is never refused, and one that does is refused unless it is forced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.errors import RefusedError
from pytubemq.security.permissions import CLUSTER_NAME, Operation, ResourceKind, is_allowed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pytubemq.security.permissions import Permission

_FORCE: Final = "repeat with --force (`force` in the JSON API)"
_MOST_NAMED: Final = 10


def loses(operation: Operation, before: Iterable[Permission], after: Iterable[Permission]) -> bool:
    """True if a change of permissions takes an operation on the cluster away."""
    return may(operation, before) and not may(operation, after)


def may(operation: Operation, granted: Iterable[Permission]) -> bool:
    """True if permissions allow an operation on the cluster."""
    return is_allowed(granted, operation, ResourceKind.CLUSTER, CLUSTER_NAME)


def brokers_locked_out(user: str, brokers: Collection[int]) -> RefusedError:
    """Return the error for a change after which registered Brokers of a user would be refused."""
    named = ", ".join(f"Broker {broker}" for broker in sorted(brokers)[:_MOST_NAMED])
    more = f" and {len(brokers) - _MOST_NAMED:,} more" if len(brokers) > _MOST_NAMED else ""
    return RefusedError(
        f"{named}{more} registered as user {user} and would be refused from now on",
        hint="give the Broker another user first, in `security.user` and `security.secret_file` of its settings, and "
        f"start it again; or {_FORCE}",
    )


def no_admin_left(user: str) -> RefusedError:
    """Return the error for a change after which no user may administer the cluster."""
    return RefusedError(
        f"user {user} is the last one that may change users and permissions",
        hint="let another user do so first:  pytubemq permission grant USER admin cluster;  or "
        f"{_FORCE}: only whoever has `http.token` of the Master's settings can do so then",
    )
