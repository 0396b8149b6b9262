"""Admission of a Broker's callers, by their tokens and their permissions.

The invariants: where the Master enforces access, nobody sends, registers, reads or moves an offset without a known
visit token, a client token and a permission, from the first request after a start on; a caller that was admitted
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
from pytubemq.model.limits import MAX_CLIENT_ID_CHARS, MAX_GROUP_CHARS, MAX_TOPIC_CHARS
from pytubemq.model.names import escaped
from pytubemq.net.server.peer_warnings import PeerWarnings
from pytubemq.security.access_rules import MASTER, AccessRules
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
MAX_NAME_CHARS: Final = max(MAX_TOPIC_CHARS, MAX_GROUP_CHARS)
_CONTEXT: Final = "admitted"
_NOT_IDENTIFIED: Final = (
    "this cluster requires authentication, and the request has no valid tokens of the Master; register at the Master "
    "with a user and its secret; a user that has got another secret or is disabled is refused so, too "
    "(`pytubemq user list`)"
)


@dataclass(frozen=True, slots=True)
class Action:
    """An operation on a resource, for which a caller needs a permission."""

    operation: Operation
    kind: ResourceKind
    name: str


def produce_to(topic: str) -> Action:
    """Return the action of sending to a topic."""
    return Action(Operation.PRODUCE, ResourceKind.TOPIC, topic)


def consume_from(topic: str) -> Action:
    """Return the action of reading a topic."""
    return Action(Operation.CONSUME, ResourceKind.TOPIC, topic)


def join_group(group: str) -> Action:
    """Return the action of joining a group, or of moving its offsets."""
    return Action(Operation.CONSUME, ResourceKind.GROUP, group)


def describe_topic(topic: str) -> Action:
    """Return the action of querying a topic's offsets."""
    return Action(Operation.DESCRIBE, ResourceKind.TOPIC, topic)


def describe_group(group: str) -> Action:
    """Return the action of querying a group's offsets."""
    return Action(Operation.DESCRIBE, ResourceKind.GROUP, group)


class AccessRefused(Refused):
    """The refusal of a caller; `reason` is what it is counted under."""

    def __init__(self, code: Code, text: str, reason: RefusalReason) -> None:
        super().__init__(code, text)
        self.reason = reason


@dataclass(slots=True)
class _Admission:
    """The admission of a caller for one action, over one connection."""

    version: int
    """The version of the rules by which it was admitted."""
    since_s: float
    identity: ClientIdentity | None
    """The caller's user; None for one that was not identified, which only permissive access admits."""
    topics: set[str] = field(default_factory=set)
    """The topics that a member may read by this version of the rules, as far as it has read them."""


@dataclass(frozen=True, slots=True)
class Identified:
    """A caller, its user if that was identified, and the rules of that moment."""

    rules: AccessRules
    identity: ClientIdentity | None
    on_refused: Callable[[AccessRefused], None]
    """Called before a refusal; instead of it where access is permissive."""
    permissive: bool = False
    """True if everything is served, and what would be refused is counted."""

    @property
    def author(self) -> str | None:
        """The user that a change is recorded as; None where the request says it, as for the Master or for nobody."""
        return None if self.identity is None or self.identity == MASTER else self.identity.user

    def is_permitted(self, action: Action) -> bool:
        """True if the caller is served this action."""
        return self.permissive or self._is_allowed(action)

    def permit(self, action: Action) -> None:
        """Refuse an action that the caller is not allowed, with 401."""
        identity = self.identity
        if identity is None or self._is_allowed(action):
            return
        refused = AccessRefused(
            Code.UNAUTHORIZED,
            f"user {identity.user} lacks the permission {action.operation} on {action.kind} {action.name}; an "
            f"administrator grants it with `pytubemq permission grant {identity.user} {action.operation} {action.kind} "
            f"{action.name}`",
            RefusalReason.PERMISSION,
        )
        self.on_refused(refused)
        if not self.permissive:
            raise refused

    def _is_allowed(self, action: Action) -> bool:
        identity = self.identity
        return identity is None or self.rules.is_allowed(identity, action.operation, action.kind, action.name)


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
    def is_permissive(self) -> bool:
        """True if everybody is served, and what would be refused is counted: the Master is permissive."""
        return not self.is_enforced and self.rules.version > 0

    @property
    def checks_producers(self) -> bool:
        """True if a producer's request must be checked."""
        return self.is_enforced or self.is_permissive or self.visit_tokens.asks_producers

    @property
    def remembers_producers(self) -> bool:
        """True if a producer that was admitted over a connection need not be checked with each request."""
        return self.is_enforced or (self.is_permissive and not self.visit_tokens.asks_producers)

    def is_admitted(self, connection: Connection, client_id: str, action: Action, *, now_s: float) -> bool:
        """True if a caller was admitted over this connection a moment ago, by the rules as they are now."""
        admitted = connection.context.get(_CONTEXT)
        found = None if admitted is None else admitted.get((client_id, action))
        return found is not None and found.version == self.rules.version and now_s - found.since_s < ADMITTED_S

    def check_member(self, connection: Connection, client_id: str, group: str, topic: str) -> None:
        """Refuse a fetch or a confirm of a member that has not registered over this connection (415), or whose user
        may not read the topic (401).

        These requests have no tokens, so the member's user is checked again by the rules as they are now: a permission
        ends at once, and not only with the next heartbeat.
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
        if len(topic) <= MAX_NAME_CHARS:
            found.topics.add(topic)

    def user_of(self, connection: Connection, client_id: str, group: str) -> str | None:
        """Return the user that a member was admitted as over this connection; None where access is not enforced."""
        found = connection.context.get(_CONTEXT, {}).get((client_id, join_group(group))) if self.is_enforced else None
        return None if found is None or found.identity is None else found.identity.user

    def identity_of(self, connection: Connection, client_id: str, action: Action) -> ClientIdentity | None:
        """Return the identity that was just admitted here for an action; None for a caller that was not identified."""
        found = connection.context.get(_CONTEXT, {}).get((client_id, action))
        return None if found is None else found.identity

    def check_again(self, identity: ClientIdentity | None, action: Action) -> None:
        """Refuse what has waited since its caller was admitted, if the caller's rights have ended, as `check` does."""
        if not self.is_enforced:
            return
        if identity is None or not self.rules.is_current(identity):
            refused = AccessRefused(Code.CERTIFICATE_FAILURE, _NOT_IDENTIFIED, RefusalReason.TOKEN)
            self._count_refused(refused)
            raise refused
        Identified(self.rules, identity, self._count_refused).permit(action)

    def check_probe(self, info: AuthorizedInfo | None, *, now_s: float) -> None:
        """Refuse a heartbeat that only queries our capabilities, with 415 where access is enforced.

        Clients send it before they have tokens and ignore its code, so it is not counted.
        """
        if self.is_enforced:
            raise Refused(Code.CERTIFICATE_FAILURE, _NOT_IDENTIFIED)
        self.visit_tokens.check_consumer(info, now_s=now_s)

    def identify(self, info: AuthorizedInfo | None, client_id: str, *, now_s: float, wall_s: float) -> Identified:
        """Return the caller, whose actions are then checked by `permit`. Raises Refused (415)."""
        if not self.is_enforced:
            self._check_visit_token(info, now_s=now_s, producing=False)
        return self._find(info, client_id, now_s=now_s, wall_s=wall_s)

    def check(
        self,
        connection: Connection,
        info: AuthorizedInfo | None,
        client_id: str,
        actions: Sequence[Action],
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
            actions: what it requests; all of it must be permitted.
            now_s: monotonic time.
            wall_s: seconds since 1970.
            producing: True for a producer, which the original's switches distinguish.
        """
        if not self.is_enforced:
            self._check_visit_token(info, now_s=now_s, producing=producing)
            if not self.is_permissive:
                return
        if all(self.is_admitted(connection, client_id, action, now_s=now_s) for action in actions):
            return
        identified = self._find(info, client_id, now_s=now_s, wall_s=wall_s)
        for action in actions:
            identified.permit(action)
        # A longer one is refused later on, and must not be held for it.
        if len(client_id) > MAX_CLIENT_ID_CHARS or any(len(action.name) > MAX_NAME_CHARS for action in actions):
            return
        admitted = connection.context.setdefault(_CONTEXT, {})
        if len(admitted) + len(actions) > MAX_ADMITTED:
            _make_room(admitted)
        for action in actions[:MAX_ADMITTED]:
            admitted[client_id, action] = _Admission(self.rules.version, now_s, identified.identity)

    # --- inside -------------------------------------------------------------------------------------------------

    def _find(self, info: AuthorizedInfo | None, client_id: str, *, now_s: float, wall_s: float) -> Identified:
        """Return the caller by its tokens. Raises Refused (415) where access is enforced."""

        def on_refused(refused: AccessRefused) -> None:
            self._count(refused, client_id, now_s=now_s)

        if not (self.is_enforced or self.is_permissive):
            return Identified(self.rules, None, on_refused)
        identity = None if info is None else self._identity(info, client_id, wall_s=wall_s)
        if identity is None:
            refused = AccessRefused(Code.CERTIFICATE_FAILURE, _NOT_IDENTIFIED, RefusalReason.TOKEN)
            on_refused(refused)
            if self.is_enforced:
                raise refused
        return Identified(self.rules, identity, on_refused, permissive=self.is_permissive)

    def _identity(self, info: AuthorizedInfo, client_id: str, *, wall_s: float) -> ClientIdentity | None:
        identity = self.rules.identify(info.auth_authorized_token, client_id, now_s=wall_s)
        if identity is not None:
            return identity if self.visit_tokens.knows(info.visit_authorized_token) else None
        # A Java consumer has no other token; it signs when it leaves a partition, which no Broker can verify.
        return self.rules.identify_visitor(info.visit_authorized_token, client_id, now_s=wall_s)

    def _check_visit_token(self, info: AuthorizedInfo | None, *, now_s: float, producing: bool) -> None:
        """Refuse a caller by the switches of a Java Master, with 415."""
        check = self.visit_tokens.check_producer if producing else self.visit_tokens.check_consumer
        try:
            check(info, now_s=now_s)
        except Refused:
            self.refusals.record(RefusalReason.TOKEN, enforced=True)
            raise

    def _count(self, refused: AccessRefused, client_id: str, *, now_s: float) -> None:
        """Count a refusal; where access is permissive it is also logged, since its caller does not get it."""
        self.refusals.record(refused.reason, enforced=self.is_enforced)
        if not self.is_enforced:
            self._warnings.warning(escaped(f"{client_id[:200]} would be refused: {refused.refusal.text}"), now_s)

    def _count_refused(self, refused: AccessRefused) -> None:
        self.refusals.record(refused.reason, enforced=True)

    def _is_still_member(self, found: _Admission, identity: ClientIdentity, group: str) -> bool:
        """True if the rules as they are now let a member stay in its group."""
        if found.version == self.rules.version:
            return True
        action = join_group(group)
        if not self.rules.is_current(identity) or not self.rules.is_allowed(
            identity, action.operation, action.kind, action.name
        ):
            return False
        found.version = self.rules.version
        found.topics.clear()
        return True


def _make_room(admitted: dict[tuple[str, Action], _Admission]) -> None:
    """Forget admissions; those of members last, since fetches depend on them."""
    members = {key: found for key, found in admitted.items() if key[1].kind is ResourceKind.GROUP}
    admitted.clear()
    if len(members) < MAX_ADMITTED // 2:
        admitted.update(members)
