"""The older queries at `/master.htm?type=...`, answered in lines of plain text; they change nothing.

The texts are the original's to the character, headings and blank lines included, since scripts take them apart; the
order of names in a list is ours (sorted). A query without a result is refused with HTTP 400 and a text of our own.
"""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse

from pytubemq.admin.access.needs import Names
from pytubemq.admin.webapi.authorization import TOKEN_NAMES
from pytubemq.admin.webapi.dispatch import all_fields
from pytubemq.admin.webapi.kinds import CONSUMER_ID, GROUP, TOPIC, Int, ListOf, shown
from pytubemq.admin.webapi.methods.group_detail import broker_text
from pytubemq.admin.webapi.params import CallError, Param, clean
from pytubemq.core.balance.consistency import GroupKind
from pytubemq.security.permissions import ResourceKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from pytubemq.admin.access.gate import Caller
    from pytubemq.admin.webapi.call_gate import CallGate
    from pytubemq.master.groups.group import Group
    from pytubemq.master.service import MasterService

_GROUP = Param("group", GROUP, required=True)
_TOPIC = Param("topic", TOPIC)
_ID = Param("id", CONSUMER_ID)
_IDS = Param("ids", ListOf(Int()))


def _names(texts: Mapping[str, str]) -> Names:
    """Return what a query names; that of a client by its id names no topic, whatever else is given."""
    topic, group = (clean(texts.get(name, "")) for name in ("topic", "group"))
    return Names((topic,) if topic and "id" not in texts else (), (group,) if group else ())


class TextQueries:
    """The text queries of one Master."""

    def __init__(self, master: MasterService, calls: CallGate) -> None:
        self._master = master
        self._calls = calls
        self.kinds = {
            "consumer": self._consumers,
            "sub_info": self._subscriptions,
            "producer": self._producers,
            "broker": self._brokers,
            "newBroker": self._brokers_with_status,
            "topic_pub": self._publishers,
            "unbalance_group": self._unbalanced,
        }

    async def answer(self, request: Request) -> Response:
        """Serve a request; the endpoint of a route."""
        status = HTTPStatus.OK
        try:
            texts = await all_fields(request)
            query = {token: texts.pop(token) for token in TOKEN_NAMES if token in texts}
            name = clean(texts.get("type", ""))
            caller = await self._calls.enter(request, f"type {shown(name)}", modify=False, query=query, form={})
            kind = self.kinds.get(name)
            if kind is None:
                what = f"is {shown(name)}" if name else "is missing"
                known = ", ".join(self.kinds)
                raise CallError(f"Unsupported request type: parameter type {what}; it must be one of {known}")
            self._calls.authorize(caller, name, _names(texts), modify=False)
            text = "".join(kind(texts, caller))
        except CallError as error:
            status, text = HTTPStatus.BAD_REQUEST, f"{error.text}\n"
        headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
        return PlainTextResponse(text, status, headers)

    # --- consumers ----------------------------------------------------------------------------------------------

    def _consumers(self, texts: Mapping[str, str], caller: Caller) -> Iterator[str]:
        name = _GROUP.read(texts)
        group = self._master.group_room.groups.get(name)
        if group is None:
            yield self._no_group("groups", caller)
            return
        topics = ",".join(sorted(group.terms.topics))
        for number, member in enumerate(sorted(group.members), 1):
            yield f"{number}. {member}@{name}:{topics}@overTLS={_tls(group.members[member].over_tls)}\n"

    def _subscriptions(self, texts: Mapping[str, str], caller: Caller) -> Iterator[str]:
        name = _GROUP.read(texts)
        group = self._master.group_room.groups.get(name)
        if group is None:
            yield self._no_group("group", caller)
            return
        yield f"\n{'#' * 26} Subscribe Relationship {'#' * 28}\n\n"
        for number, member in enumerate(sorted(group.members), 1):
            yield f"{'*' * 15} {number}. {member}#isOverTLS={_tls(group.members[member].over_tls)} {'*' * 15}"
            if group.not_allocated and group.kind is not GroupKind.CLIENT_BALANCE:
                yield "\n\n"  # the original counts from the first allocation on
                continue
            held = sorted(group.holds(member))
            yield f"({len(held)})\n\n"
            for partition in held:
                broker = broker_text(self._master, partition.broker_id)
                yield f"{member}#{broker}#{partition.topic}:{partition.partition_id}\n"
            yield "\n\n"

    def _no_group(self, noun: str, caller: Caller) -> str:
        """Return the lines for a group that there is not, with those that the caller may see."""
        gate = self._calls.gate
        groups = [
            name for name in sorted(self._master.group_room.groups) if gate.sees(caller, ResourceKind.GROUP, name)
        ]
        return "".join(f"{line}\n" for line in ("No such group.", "", f"Current all {noun}({len(groups)}):", *groups))

    def _unbalanced(self, _: Mapping[str, str], __: Caller) -> Iterator[str]:
        for name, group in sorted(self._master.group_room.groups.items()):
            if group.kind is not GroupKind.CLIENT_BALANCE:
                yield from (f"{name}:{topic}\n" for topic in self._lacking(group))

    def _lacking(self, group: Group) -> Iterator[str]:
        """Yield the topics of which not all readable partitions are assigned."""
        held = Counter(partition.topic for member in group.members for partition in group.holds(member))
        for topic in sorted(group.terms.topics):
            available, _ = self._master.broker_room.topics.consumable((topic,))
            if held[topic] != len(available):
                yield topic

    # --- producers ----------------------------------------------------------------------------------------------

    def _producers(self, texts: Mapping[str, str], _: Caller) -> Iterator[str]:
        client_id, topic = _ID.read(texts), _TOPIC.read(texts)
        if client_id is None and topic is None:
            raise CallError("parameter id or topic is missing: give one of them")
        if client_id is None:
            found = self._of_topic(topic)
            yield from (f"{number}. {name}\n" for number, name in enumerate(found, 1))
            return
        producer = self._master.producer_room.by_id.get(client_id)
        if producer is None:
            yield "No such producer!"
            return
        yield f"{client_id}#{''.join(f'{topic}:' for topic in producer.topics)}@overTLS={_tls(producer.over_tls)}"

    def _publishers(self, texts: Mapping[str, str], _: Caller) -> Iterator[str]:
        topic = Param("topic", TOPIC, required=True).read(texts)
        found = self._of_topic(topic)
        yield from (f"{name}\n" for name in found) if found else ("No producer has publish this topic.",)

    def _of_topic(self, topic: str) -> list[str]:
        by_id = self._master.producer_room.by_id
        return sorted(client_id for client_id, producer in by_id.items() if topic in producer.topics)

    # --- Brokers ------------------------------------------------------------------------------------------------

    def _brokers(self, texts: Mapping[str, str], _: Caller) -> Iterator[str]:
        return self._served(texts, with_status=False)

    def _brokers_with_status(self, texts: Mapping[str, str], _: Caller) -> Iterator[str]:
        return self._served(texts, with_status=True)

    def _served(self, texts: Mapping[str, str], *, with_status: bool) -> Iterator[str]:
        """Yield what the running Brokers have reported: a heading for each, and a line for each of its topics."""
        wanted = _IDS.read(texts)
        runs = self._master.broker_room.runs
        shown = [broker_id for broker_id in sorted(runs) if wanted is None or broker_id in wanted]
        for number, broker_id in enumerate(shown, 1):
            brief = f"{broker_id}:{runs[broker_id].address}"
            yield f"\n{'#' * 34} {number}. {brief} {'#' * 34}\n"
            for topic, served in sorted(runs[broker_id].topics.items()):
                status = f"#{served.status}" if with_status else ""
                accepts = f"{str(served.accept_publish).lower()}:{str(served.accept_subscribe).lower()}"
                yield f"{brief}#{topic}:{served.partitions}:{accepts}:{served.stores}{status}\n"


def _tls(is_tls: bool) -> str:
    return "true" if is_tls else "false"
