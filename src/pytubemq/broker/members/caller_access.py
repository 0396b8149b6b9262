"""Admission of a Broker's callers, by the visit token, by who they are, and by what they are permitted.

The invariants: where the Master enforces access, nobody sends, registers, reads or moves an offset without a known
visit token, a token of its own and a permission, from the first request after a start on; a caller that was admitted
over a connection is admitted there again, without another check, until the rules change or some time has passed. Where
the Master is permissive, everybody is served, and what would be refused is counted and logged, once in that time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.broker.members.visit_tokens import VisitTokens
from pytubemq.core.refusal import Refused
from pytubemq.errors import Code
from pytubemq.model.names import escaped
from pytubemq.net.server.peer_warnings import PeerWarnings
from pytubemq.security.access_rules import AccessRules
from pytubemq.security.permissions import Operation, ResourceKind
from pytubemq.security.refusals import RefusalReason, Refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.net.server.call import Connection
    from pytubemq.security.client_token import ClientIdentity
    from pytubemq.wire.protocol.messages.broker import AuthorizedInfo

logger = logging.getLogger(__name__)

ADMITTED_S: Final = 30.0
"""The time for which an admission holds on its connection; the clients' tokens are renewed more seldom."""
MAX_ADMITTED: Final = 1_000
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


class AccessRefused(Refused):
    """A caller that is not admitted; `reason` is what it is counted under."""

    def __init__(self, code: Code, text: str, reason: RefusalReason) -> None:
        super().__init__(code, text)
        self.reason = reason


@dataclass(slots=True)
class _Admission:
    """A wish that a caller was admitted with over a connection."""

    version: int
    """The version of the rules by which it was admitted."""
    since_s: float
    identity: ClientIdentity | None
    """Who it is; None for a caller that was only watched."""
    topics: set[str] = field(default_factory=set)
    """The topics that a member may read by this version of the rules, as far as it has read them."""


@dataclass(frozen=True, slots=True)
class Identified:
    """A caller that was identified, and the rules of that moment; nobody in particular where access is open."""

    rules: AccessRules
    identity: ClientIdentity | None
    on_refused: Callable[[AccessRefused], None]
    """Called before a refusal; for a caller that is only watched, in place of it."""
    watched: bool = False
    """True if everything is served, and what would be refused is counted."""

    def is_permitted(self, wish: Wish) -> bool:
        """True if the caller is served something."""
        return self.watched or self._is_allowed(wish)

    def permit(self, wish: Wish) -> None:
        """Refuse what the caller is not allowed, with 401."""
        identity = self.identity
        if identity is None or self._is_allowed(wish):
            return
        refused = AccessRefused(
            Code.UNAUTHORIZED,
            f"user {identity.user} lacks the permission {wish.operation} on {wish.kind} {wish.name}; an administrator "
            f"grants it with `pytubemq permission grant {identity.user} {wish.operation} {wish.kind} {wish.name}`",
            RefusalReason.PERMISSION,
        )
        self.on_refused(refused)
        if not self.watched:
            raise refused

    def _is_allowed(self, wish: Wish) -> bool:
        identity = self.identity
        return identity is None or self.rules.is_allowed(identity, wish.operation, wish.kind, wish.name)


@dataclass(slots=True)
class CallerAccess:
    """The checks of callers that the Master requires."""

    visit_tokens: VisitTokens = field(default_factory=VisitTokens)
    rules: AccessRules = field(default_factory=AccessRules)
    required: bool = False
    """True if this Broker refuses everybody until its Master has sent it rules."""
    refusals: Refusals = field(default_factory=Refusals)
    _warnings: PeerWarnings = field(default_factory=lambda: PeerWarnings(logger, "access"))

    @property
    def is_enforced(self) -> bool:
        """True if callers need a permission."""
        return self.required or self.rules.enforced

    @property
    def lacks_rules(self) -> bool:
        """True if everybody is refused, as no Master has sent rules."""
        return self.required and self.rules.version == 0

    @property
    def is_watching(self) -> bool:
        """True if everybody is served, and what would be refused is counted: the Master is permissive."""
        return not self.is_enforced and self.rules.version > 0

    @property
    def checks_producers(self) -> bool:
        """True if a producer's request must be checked."""
        return self.is_enforced or self.is_watching or self.visit_tokens.asks_producers

    @property
    def remembers_producers(self) -> bool:
        """True if a producer that was admitted over a connection need not be checked with each request."""
        return self.is_enforced or (self.is_watching and not self.visit_tokens.asks_producers)

    def is_admitted(self, connection: Connection, client_id: str, wish: Wish, *, now_s: float) -> bool:
        """True if a caller was admitted over this connection a moment ago, by the rules as they are now."""
        admitted = connection.context.get(_CONTEXT)
        found = None if admitted is None else admitted.get((client_id, wish))
        return found is not None and found.version == self.rules.version and now_s - found.since_s < ADMITTED_S

    def check_member(self, connection: Connection, client_id: str, group: str, topic: str) -> None:
        """Refuse a fetch or a confirm of who has not registered over this connection, with 415; of a topic, with 401.

        These requests have no tokens, so whoever registered is judged again by the rules as they are now: a member
        whose rights have ended need not send another heartbeat.
        """
        if not self.is_enforced:
            return
        found = connection.context.get(_CONTEXT, {}).get((client_id, join_group(group)))
        if found is None or found.identity is None or not self._is_still_member(found, found.identity, group):
            self.refusals.record(RefusalReason.UNREGISTERED, enforced=True)
            raise Refused(
                Code.CERTIFICATE_FAILURE, f"{client_id} has not registered in group {group} over this connection"
            )
        if topic in found.topics:
            return
        Identified(self.rules, found.identity, self._count_refused).permit(consume_from(topic))
        if len(found.topics) >= MAX_ADMITTED:
            found.topics.clear()
        found.topics.add(topic)

    def check_probe(self, info: AuthorizedInfo | None, *, now_s: float) -> None:
        """Refuse a heartbeat that names nothing and only asks for our capabilities, with 415 where access is enforced.

        Clients send it before they have tokens and look at no code, so it counts as nothing.
        """
        if self.is_enforced:
            raise Refused(Code.CERTIFICATE_FAILURE, _NOT_IDENTIFIED)
        self.visit_tokens.check_consumer(info, now_s=now_s)

    def identify(self, info: AuthorizedInfo | None, client_id: str, *, now_s: float, wall_s: float) -> Identified:
        """Return who calls, with the permissions to check; each wish is checked by `permit`. Raises Refused (415)."""
        if not self.is_enforced:
            self._check_visit_token(info, now_s=now_s, producing=False)
        return self._find(info, client_id, now_s=now_s, wall_s=wall_s)

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
            self._check_visit_token(info, now_s=now_s, producing=producing)
            if not self.is_watching:
                return
        if all(self.is_admitted(connection, client_id, wish, now_s=now_s) for wish in wishes):
            return
        identified = self._find(info, client_id, now_s=now_s, wall_s=wall_s)
        for wish in wishes:
            identified.permit(wish)
        admitted = connection.context.setdefault(_CONTEXT, {})
        if len(admitted) + len(wishes) > MAX_ADMITTED:
            _make_room(admitted)
        for wish in wishes[:MAX_ADMITTED]:
            admitted[client_id, wish] = _Admission(self.rules.version, now_s, identified.identity)

    # --- inside -------------------------------------------------------------------------------------------------

    def _find(self, info: AuthorizedInfo | None, client_id: str, *, now_s: float, wall_s: float) -> Identified:
        """Return who calls, by its tokens. Raises Refused (415) where access is enforced."""

        def on_refused(refused: AccessRefused) -> None:
            self._count(refused, client_id, now_s=now_s)

        if not (self.is_enforced or self.is_watching):
            return Identified(self.rules, None, on_refused)
        identity = None if info is None else self._identity(info, client_id, wall_s=wall_s)
        if identity is None:
            refused = AccessRefused(Code.CERTIFICATE_FAILURE, _NOT_IDENTIFIED, RefusalReason.TOKEN)
            on_refused(refused)
            if self.is_enforced:
                raise refused
        return Identified(self.rules, identity, on_refused, watched=self.is_watching)

    def _identity(self, info: AuthorizedInfo, client_id: str, *, wall_s: float) -> ClientIdentity | None:
        identity = self.rules.identify(info.auth_authorized_token, client_id, now_s=wall_s)
        if identity is not None:
            return identity if self.visit_tokens.knows(info.visit_authorized_token) else None
        # A Java consumer has no other token; what it signs to leave a partition, no Broker can verify.
        return self.rules.identify_visitor(info.visit_authorized_token, client_id, now_s=wall_s)

    def _check_visit_token(self, info: AuthorizedInfo | None, *, now_s: float, producing: bool) -> None:
        """Refuse a caller that the switches of the original keep out, with 415."""
        check = self.visit_tokens.check_producer if producing else self.visit_tokens.check_consumer
        try:
            check(info, now_s=now_s)
        except Refused:
            self.refusals.record(RefusalReason.TOKEN, enforced=True)
            raise

    def _count(self, refused: AccessRefused, client_id: str, *, now_s: float) -> None:
        """Count a refusal; one that is not made is logged, since its caller learns nothing of it."""
        self.refusals.record(refused.reason, enforced=self.is_enforced)
        if not self.is_enforced:
            self._warnings.warning(escaped(f"{client_id[:200]} would be refused: {refused.refusal.text}"), now_s)

    def _count_refused(self, refused: AccessRefused) -> None:
        self.refusals.record(refused.reason, enforced=True)

    def _is_still_member(self, found: _Admission, identity: ClientIdentity, group: str) -> bool:
        """True if the rules as they are now let a member stay in its group."""
        if found.version == self.rules.version:
            return True
        wish = join_group(group)
        if not self.rules.is_current(identity) or not self.rules.is_allowed(
            identity, wish.operation, wish.kind, wish.name
        ):
            return False
        found.version = self.rules.version
        found.topics.clear()
        return True


def _make_room(admitted: dict[tuple[str, Wish], _Admission]) -> None:
    """Forget admissions, and those of members last, since fetches depend on them."""
    members = {key: found for key, found in admitted.items() if key[1].kind is ResourceKind.GROUP}
    admitted.clear()
    if len(members) < MAX_ADMITTED // 2:
        admitted.update(members)
