"""Admission of a Broker's callers, by the visit token, by who they are, and by what they are permitted.

The invariants: where the Master enforces access, nobody sends, registers, reads or moves an offset without a known
visit token, a token of its own and a permission, from the first request after a start on; a caller that was admitted
over a connection is admitted there again, without another check, until the rules change or some time has passed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.broker.members.visit_tokens import VisitTokens
from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.security.access_rules import AccessRules
from pytubemq.security.permissions import Operation, ResourceKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.net.server.call import Connection
    from pytubemq.wire.protocol.messages.broker import AuthorizedInfo

ADMITTED_S: Final = 30.0
"""The time for which an admission holds on its connection; the clients' tokens are renewed more seldom."""
MAX_ADMITTED: Final = 1_000
"""Admissions remembered for a connection; beyond it all are forgotten, which costs time only."""
_CONTEXT: Final = "admitted"


@dataclass(frozen=True, slots=True)
class Wish:
    """Something that a caller wants to do."""

    operation: Operation
    kind: ResourceKind
    name: str


def produce_to(topic: str) -> Wish:
    """Return the wish to send to a topic."""
    return Wish(Operation.PRODUCE, ResourceKind.TOPIC, topic)


def consume_from(topic: str) -> Wish:
    """Return the wish to read a topic."""
    return Wish(Operation.CONSUME, ResourceKind.TOPIC, topic)


def join_group(group: str) -> Wish:
    """Return the wish to be a member of a group, or to move its offsets."""
    return Wish(Operation.CONSUME, ResourceKind.GROUP, group)


def describe_topic(topic: str) -> Wish:
    """Return the wish to know a topic's offsets."""
    return Wish(Operation.DESCRIBE, ResourceKind.TOPIC, topic)


def describe_group(group: str) -> Wish:
    """Return the wish to know a group's offsets."""
    return Wish(Operation.DESCRIBE, ResourceKind.GROUP, group)


@dataclass(slots=True)
class CallerAccess:
    """The checks of callers that the Master requires."""

    visit_tokens: VisitTokens = field(default_factory=VisitTokens)
    rules: AccessRules = field(default_factory=AccessRules)
    required: bool = False
    """True if this Broker refuses everybody until its Master has sent it rules."""

    @property
    def is_enforced(self) -> bool:
        """True if callers need a permission."""
        return self.required or self.rules.enforced

    @property
    def checks_producers(self) -> bool:
        """True if a producer's request must be checked."""
        return self.is_enforced or self.visit_tokens.asks_producers

    def is_admitted(self, connection: Connection, client_id: str, wish: Wish, *, now_s: float) -> bool:
        """True if a caller was admitted over this connection a moment ago, by the rules as they are now."""
        admitted = connection.context.get(_CONTEXT)
        found = None if admitted is None else admitted.get((client_id, wish))
        return found is not None and found[0] == self.rules.version and now_s - found[1] < ADMITTED_S

    def check(
        self,
        connection: Connection,
        info: AuthorizedInfo | None,
        client_id: str,
        wishes: Sequence[Wish],
        *,
        now_s: float,
        wall_s: float,
        producing: bool = False,
    ) -> None:
        """Refuse a caller that is not admitted, with 415, or lacks a permission, with 401.

        Args:
            connection: the caller's; what is found is remembered there.
            info: the tokens in its request.
            client_id: its id, to which its token is bound.
            wishes: what it wants to do; all of it must be permitted.
            now_s: monotonic time.
            wall_s: seconds since 1970.
            producing: True for a producer, which the original's switches distinguish.
        """
        if not self.is_enforced:
            check = self.visit_tokens.check_producer if producing else self.visit_tokens.check_consumer
            check(info, now_s=now_s)
            return
        if all(self.is_admitted(connection, client_id, wish, now_s=now_s) for wish in wishes):
            return
        self._check_rules(info, client_id, wishes, wall_s=wall_s)
        admitted = connection.context.setdefault(_CONTEXT, {})
        if len(admitted) + len(wishes) > MAX_ADMITTED:
            admitted.clear()
        for wish in wishes[:MAX_ADMITTED]:
            admitted[client_id, wish] = (self.rules.version, now_s)

    def _check_rules(
        self, info: AuthorizedInfo | None, client_id: str, wishes: Sequence[Wish], *, wall_s: float
    ) -> None:
        rules = self.rules
        token = None if info is None else info.auth_authorized_token
        identity = rules.identify(token, client_id, now_s=wall_s)
        if info is None or identity is None or not self.visit_tokens.knows(info.visit_authorized_token):
            raise Refused(
                Code.CERTIFICATE_FAILURE,
                "this cluster requires authentication, and the request has no valid tokens of the Master; register "
                "at the Master with a user and its secret",
            )
        for wish in wishes:
            if not rules.is_allowed(identity, wish.operation, wish.kind, wish.name):
                raise Refused(
                    Code.UNAUTHORIZED,
                    f"user {identity.user} lacks the permission {wish.operation} on {wish.kind} {wish.name}; an "
                    f"administrator grants it with `pytubemq permission grant {identity.user} {wish.operation} "
                    f"{wish.kind} {wish.name}`",
                )
