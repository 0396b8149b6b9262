"""What to do when the Master does not let a consumer in: by its code, in words for who wrote the consumer.

The invariant: the Master's own text stays; what is added is only what this side can do about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import Code, GroupMismatchError, NotAllowedError, refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.errors import NotFoundError, RefusedError

_OTHERWISE = "all members of a group read the same topics with the same filters; use another group name"
_HINTS: dict[int, str] = {
    Code.CLIENT_INCONSISTENT_CONSUMETYPE: "the members of a group are all bound, or all balanced by the Master, or all "
    "by themselves; use another group name, or stop those that run",
    Code.CLIENT_INCONSISTENT_SESSIONKEY: "all members of a run give the same session_key; stop those of the last run",
    Code.CLIENT_INCONSISTENT_SELECTBIG: "give all members of the group the same select_big",
    Code.CLIENT_INCONSISTENT_SOURCECOUNT: "all members give the same source_count; stop all before you change it",
    Code.CONSUME_GROUP_FORBIDDEN: "ask an administrator to name the group for the topic: "
    "admin_add_authorized_consumergroup_info of /webapi.htm (docs/how-to/control-groups.md)",
    Code.CONSUME_CONTENT_FORBIDDEN: "filter by items that the group is allowed: filters=[...], or --type ITEM of the "
    "command line; an administrator can allow others (docs/how-to/control-groups.md)",
}


def missing(error: NotFoundError, topics: Iterable[str]) -> RefusedError:
    """The same refusal for topics that do not exist, with how to make them."""
    return refused(
        error.code or Code.TOPIC_NOT_DEPLOYED,
        error.message,
        hint=f"create it with  pytubemq topic create {' or '.join(topics)}",
    )


def with_hint(error: GroupMismatchError | NotAllowedError, hints: Mapping[int, str] | None = None) -> RefusedError:
    """The same refusal, with what to do about it; `hints` by code go before those here."""
    otherwise = _OTHERWISE if isinstance(error, GroupMismatchError) else error.hint
    hint = {**_HINTS, **(hints or {})}.get(error.code or 0, otherwise)
    return refused(error.code or Code.BAD_REQUEST, error.message, hint=hint)
