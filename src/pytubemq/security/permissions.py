"""Permissions of users: what is allowed is what was granted, and nothing else.

The invariants: without a grant that covers it an operation is refused; a pattern is a name, the start of names with `*`
behind it, or `*` alone, so a decision takes time in the length of the name only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

from pytubemq.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable

CLUSTER_NAME: Final = "cluster"
"""The name of the one resource of the kind `cluster`."""


@unique
class Operation(StrEnum):
    """An operation that a permission allows on a resource."""

    PRODUCE = "produce"
    CONSUME = "consume"
    DESCRIBE = "describe"
    ADMIN = "admin"
    OPERATE = "operate"
    """On the cluster: change Brokers, topics, groups and defaults; not users and permissions."""
    BROKER = "broker"
    """On the cluster: register as a Broker."""


@unique
class ResourceKind(StrEnum):
    """A kind of resource."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"


ALLOWED_OPERATIONS: Final = {
    ResourceKind.TOPIC: frozenset({Operation.PRODUCE, Operation.CONSUME, Operation.DESCRIBE, Operation.ADMIN}),
    ResourceKind.GROUP: frozenset({Operation.CONSUME, Operation.DESCRIBE, Operation.ADMIN}),
    ResourceKind.CLUSTER: frozenset({Operation.DESCRIBE, Operation.OPERATE, Operation.ADMIN, Operation.BROKER}),
}
"""The operations that there are for each kind of resource."""

_IMPLIED: Final = {
    Operation.PRODUCE: frozenset({Operation.DESCRIBE}),
    Operation.CONSUME: frozenset({Operation.DESCRIBE}),
    Operation.ADMIN: frozenset({Operation.PRODUCE, Operation.CONSUME, Operation.DESCRIBE, Operation.OPERATE}),
    Operation.OPERATE: frozenset({Operation.DESCRIBE}),
}
"""The operations on the same resource that another one includes; none includes `broker`."""


@dataclass(frozen=True, slots=True, order=True)
class Permission:
    """One operation on the resources of a kind whose names a pattern covers."""

    operation: Operation
    kind: ResourceKind
    pattern: str

    def __str__(self) -> str:
        return f"{self.operation} {self.kind} {self.pattern}"

    def covers(self, operation: Operation, kind: ResourceKind, name: str) -> bool:
        """True if this permission allows the operation on the named resource."""
        if self.kind is ResourceKind.CLUSTER and kind is not ResourceKind.CLUSTER:
            return self._covers_from_cluster(operation)
        if kind is not self.kind or not _matches(self.pattern, name):
            return False
        return operation is self.operation or operation in _IMPLIED.get(self.operation, ())

    def _covers_from_cluster(self, operation: Operation) -> bool:
        """True if a permission on the cluster includes the operation on each topic and group."""
        if self.operation is Operation.ADMIN:
            return True
        if self.operation is Operation.OPERATE:
            return operation in (Operation.ADMIN, Operation.DESCRIBE)
        return self.operation is Operation.DESCRIBE and operation is Operation.DESCRIBE


def parse_permission(operation: str, kind: str, pattern: str) -> Permission:
    """Return the permission that three words name.

    Raises:
        FormatError: there is no such operation or kind, the kind has no such operation, or the pattern is malformed.
    """
    if kind not in set(ResourceKind):
        raise FormatError(f"there is no kind of resource {kind!r}", hint=f"write one of {', '.join(ResourceKind)}")
    allowed = ALLOWED_OPERATIONS[ResourceKind(kind)]
    if operation not in allowed:
        raise FormatError(
            f"{operation!r} is no operation on a {kind}", hint=f"write one of {', '.join(sorted(allowed))}"
        )
    if kind == ResourceKind.CLUSTER and pattern not in ("*", CLUSTER_NAME):
        raise FormatError(f"{pattern!r} is no cluster", hint="leave the name out: there is one cluster")
    if not pattern or "*" in pattern[:-1] or not pattern.isprintable() or len(pattern) > 1024:
        raise FormatError(
            f"{pattern[:80]!r} is no pattern of names", hint="write a name, the start of names with * behind it, or *"
        )
    return Permission(Operation(operation), ResourceKind(kind), "*" if kind == ResourceKind.CLUSTER else pattern)


def is_allowed(granted: Iterable[Permission], operation: Operation, kind: ResourceKind, name: str) -> bool:
    """True if one of the granted permissions covers the operation; False where none was granted."""
    return any(permission.covers(operation, kind, name) for permission in granted)


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
