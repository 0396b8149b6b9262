"""The steps that the methods of server-balanced and of client-balanced consumers have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pytubemq.core.balance.consistency import GroupKind
from pytubemq.core.refusal import Refused
from pytubemq.core.request_fields import check_client_id, check_group_name
from pytubemq.errors import Code
from pytubemq.master.held_heartbeats import allowed_wait_s
from pytubemq.model.limits import MAX_HEARTBEAT_WAIT_S

if TYPE_CHECKING:
    from pytubemq.core.balance.consistency import Mismatch
    from pytubemq.master.access.tokens import Tokens
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.groups.authorization import Authorization
    from pytubemq.master.groups.flow_control import FlowResponses
    from pytubemq.master.groups.group import Group
    from pytubemq.master.groups.groups import Groups
    from pytubemq.net.clock import Clock
    from pytubemq.net.server.call import Call


class ConsumerMethods:
    """The calls of consumers of one kind."""

    client_balanced: ClassVar[bool]
    """True if they share the partitions among themselves."""
    heartbeats_of_others: ClassVar[str]
    """The methods that consumers of the other kind use for heartbeats, and those they do not."""

    def __init__(
        self,
        catalogue: Catalogue,
        groups: Groups,
        clock: Clock,
        tokens: Tokens,
        authorization: Authorization,
        flow: FlowResponses,
        *,
        longest_wait_s: float = MAX_HEARTBEAT_WAIT_S,
    ) -> None:
        self._catalogue = catalogue
        self._groups = groups
        self._clock = clock
        self._tokens = tokens
        self._authorization = authorization
        self._flow = flow
        self._longest_wait_s = longest_wait_s

    def _admit(self, name: str, client_id: str, call: Call, mismatch: Mismatch | None) -> Group:
        """Return the group that a consumer has joined. Raises Refused: it fits none of its members."""
        if mismatch is not None:
            raise Refused(mismatch.code, mismatch.text)
        group = self._groups.groups[name]
        self._groups.record_use(group, client_id, call.connection)
        group.sent_rules[client_id] = self._flow.ids(name)
        return group

    def _find(self, client_id: str, group_name: str) -> tuple[str, Group]:
        """Return the id and the group of a registered consumer.

        Raises:
            Refused: it is not registered (411), or as one of the other kind.
        """
        client_id = check_client_id(client_id, in_lists=True)
        name = check_group_name(group_name, in_lists=True)
        group = self._groups.find(name, client_id)
        if group is None:
            raise Refused(Code.HB_NO_NODE, f"consumer {client_id} is not in group {name}, register first")
        if (group.kind is GroupKind.CLIENT_BALANCE) is not self.client_balanced:
            raise Refused(
                Code.CLIENT_INCONSISTENT_CONSUMETYPE,
                f"consumer {client_id} registered as {group.kind.text}: its heartbeats are {self.heartbeats_of_others}",
            )
        return client_id, group

    def _allowed_wait_s(self, call: Call, max_wait_ms: int | None) -> float:
        """Return how long a heartbeat may be held."""
        left_s = call.deadline_s - self._clock.now_s()
        return allowed_wait_s(max_wait_ms, left_s=left_s, longest_s=self._longest_wait_s)
