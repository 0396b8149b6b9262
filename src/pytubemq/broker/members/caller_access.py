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
    from pytubemq.security.client_token import ClientIdentity
    from pytubemq.wire.protocol.messages.broker import AuthorizedInfo

ADMITTED_S: Final = 30.0
"""The time for which an admission holds on its connection; the clients' tokens are renewed more seldom."""
MEMBER_S: Final = 60.0
"""The time after an admission for which a member may fetch although the rules have changed: longer than a heartbeat's
period, 13 s in a Java client, and the time for which an admission is not renewed."""
MAX_ADMITTED: Final = 10_000
"""Admissions remembered for a connection; beyond it all are forgotten, which costs time only."""
_CONTEXT: Final = "admitted"
_NOT_IDENTIFIED: Final = (
    "this cluster requires authentication, and the request has no valid tokens of the Master; register at the Master "
    "with a user and its secret"
)


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


@dataclass(frozen=True, slots=True)
class Identified:
    """A caller that was identified, and the rules of that moment; nobody in particular where access is open."""

    rules: AccessRules
    identity: ClientIdentity | None

    def is_permitted(self, wish: Wish) -> bool:
        """True if the caller is allowed something."""
        identity = self.identity
        return identity is None or self.rules.is_allowed(identity, wish.operation, wish.kind, wish.name)

    def permit(self, wish: Wish) -> None:
        """Refuse what the caller is not allowed, with 401."""
        identity = self.identity
        if identity is None or self.is_permitted(wish):
            return
        raise Refused(
            Code.UNAUTHORIZED,
            f"user {identity.user} lacks the permission {wish.operation} on {wish.kind} {wish.name}; an administrator "
            f"grants it with `pytubemq permission grant {identity.user} {wish.operation} {wish.kind} {wish.name}`",
        )


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
    def lacks_rules(self) -> bool:
        """True if everybody is refused, as no Master has sent rules."""
        return self.required and self.rules.version == 0

    @property
    def checks_producers(self) -> bool:
        """True if a producer's request must be checked."""
        return self.is_enforced or self.visit_tokens.asks_producers

    def is_admitted(self, connection: Connection, client_id: str, wish: Wish, *, now_s: float) -> bool:
        """True if a caller was admitted over this connection a moment ago, by the rules as they are now."""
        admitted = connection.context.get(_CONTEXT)
        found = None if admitted is None else admitted.get((client_id, wish))
        return found is not None and found[0] == self.rules.version and now_s - found[1] < ADMITTED_S

    def is_member(self, connection: Connection, client_id: str, topic: str, group: str, *, now_s: float) -> bool:
        """True if a member has registered over a connection, or sent a heartbeat, and has not lost its rights since.

        Fetches and confirms have no tokens. After a change of rules a member has the time until its next heartbeat.
        """
        if not self.is_enforced:
            return True
        admitted = connection.context.get(_CONTEXT, {})
        for wish in (join_group(group), consume_from(topic)):
            found = admitted.get((client_id, wish))
            if found is None or (found[0] != self.rules.version and now_s - found[1] >= MEMBER_S):
                return False
        return True

    def identify(self, info: AuthorizedInfo | None, client_id: str, *, now_s: float, wall_s: float) -> Identified:
        """Return who calls, with the permissions to check; each wish is checked by `permit`. Raises Refused (415)."""
        if not self.is_enforced:
            self.visit_tokens.check_consumer(info, now_s=now_s)
            return Identified(self.rules, None)
        identity = None if info is None else self._identity(info, client_id, wall_s=wall_s)
        if identity is None:
            raise Refused(Code.CERTIFICATE_FAILURE, _NOT_IDENTIFIED)
        return Identified(self.rules, identity)

    def _identity(self, info: AuthorizedInfo, client_id: str, *, wall_s: float) -> ClientIdentity | None:
        identity = self.rules.identify(info.auth_authorized_token, client_id, now_s=wall_s)
        if identity is not None:
            return identity if self.visit_tokens.knows(info.visit_authorized_token) else None
        # A Java consumer has no other token; what it signs to leave a partition, no Broker can verify.
        return self.rules.identify_visitor(info.visit_authorized_token, client_id, now_s=wall_s)

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
        identified = self.identify(info, client_id, now_s=now_s, wall_s=wall_s)
        for wish in wishes:
            identified.permit(wish)
        admitted = connection.context.setdefault(_CONTEXT, {})
        if len(admitted) + len(wishes) > MAX_ADMITTED:
            admitted.clear()
        for wish in wishes[:MAX_ADMITTED]:
            admitted[client_id, wish] = (self.rules.version, now_s)
