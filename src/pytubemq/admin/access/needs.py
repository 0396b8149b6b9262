"""Needs of calls over HTTP: the rows of the tables of permissions.

The invariant: a row says all that the check of a call depends on, so tests and documents are made from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, unique
from typing import TYPE_CHECKING, Final

from pytubemq.security.permissions import Operation, ResourceKind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


@unique
class Subject(Enum):
    """The resources of a call that a permission is needed on."""

    ANYONE = "nothing"
    SIGNED_IN = "to be a user"
    LISTED = "to be a user; what the user may not `describe` is left out"
    ITS_METHOD = "what its method needs, below"
    SERVERS_TOKEN = "the token of the server (`http.token`)"
    THE_CLUSTER = "the cluster"
    ITS_TOPICS = "each topic that it names"
    ITS_GROUPS = "each group that it names"
    ITS_USER = "to be the named user, or `admin` on the cluster"


@dataclass(frozen=True, slots=True)
class HttpNeed:
    """A permission that a call needs; without an operation the subject says all."""

    subject: Subject
    operation: Operation | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """The needs of a call; `guarded` calls need the server's token where authentication is off.

    A call that names neither a topic nor a group, though its needs are about them, is about all of them: it needs
    `WITHOUT_NAMES` of each operation on the cluster.
    """

    needs: tuple[HttpNeed, ...]
    guarded: bool = False
    asks: bool = False
    """True if it changes nothing, whatever its HTTP method."""


@dataclass(frozen=True, slots=True)
class Names:
    """The topics, groups and users that a call names."""

    topics: Collection[str] = ()
    groups: Collection[str] = ()
    users: Collection[str] = field(default=())


KIND_OF: Final = {Subject.ITS_TOPICS: ResourceKind.TOPIC, Subject.ITS_GROUPS: ResourceKind.GROUP}
WITHOUT_NAMES: Final[Mapping[Operation, Operation]] = {
    Operation.DESCRIBE: Operation.DESCRIBE,
    Operation.ADMIN: Operation.OPERATE,
    Operation.CONSUME: Operation.ADMIN,
    Operation.PRODUCE: Operation.ADMIN,
}
"""The operation on the cluster that includes one on every topic and group."""

ANYONE: Final = HttpNeed(Subject.ANYONE)
SIGNED_IN: Final = HttpNeed(Subject.SIGNED_IN)
LISTED: Final = HttpNeed(Subject.LISTED)
ITS_METHOD: Final = HttpNeed(Subject.ITS_METHOD)
ITS_USER: Final = HttpNeed(Subject.ITS_USER)
SERVERS_TOKEN: Final = HttpNeed(Subject.SERVERS_TOKEN)
SEE_CLUSTER: Final = HttpNeed(Subject.THE_CLUSTER, Operation.DESCRIBE)
OPERATE: Final = HttpNeed(Subject.THE_CLUSTER, Operation.OPERATE)
ADMINISTER: Final = HttpNeed(Subject.THE_CLUSTER, Operation.ADMIN)
SEE_TOPIC: Final = HttpNeed(Subject.ITS_TOPICS, Operation.DESCRIBE)
CHANGE_TOPIC: Final = HttpNeed(Subject.ITS_TOPICS, Operation.ADMIN)
READ_TOPIC: Final = HttpNeed(Subject.ITS_TOPICS, Operation.CONSUME)
SEE_GROUP: Final = HttpNeed(Subject.ITS_GROUPS, Operation.DESCRIBE)
CHANGE_GROUP: Final = HttpNeed(Subject.ITS_GROUPS, Operation.ADMIN)
JOIN_GROUP: Final = HttpNeed(Subject.ITS_GROUPS, Operation.CONSUME)
