"""Errors of consumers that the Master does not admit, with hints for their author.

The invariant: the Master's own text stays; a hint only adds what this side can do about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.client.session.routes import RouteDiscovery, known_topics
from pytubemq.errors import Code, GroupMismatchError, NotAllowedError, TubeError, refused
from pytubemq.model.missing_topic import topic_missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pytubemq.client.session.cluster_connection import Cluster
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


_GRANT = "`pytubemq permission grant "
"""Words in the text of a Master that checks users: it names the remedy, and the list of a topic's groups is none."""


async def missing_topics_error(error: NotFoundError, topics: Iterable[str], cluster: Cluster) -> RefusedError:
    """Return the error for the topics that do not exist, of those that a refused consumer named.

    The Master is asked for the names of all topics; where it does not name them, its own text stays.
    """
    known = await _topic_names(cluster)
    absent = [topic for topic in topics if topic not in known] if known is not None else []
    code = Code(error.code) if error.code in set(Code) else Code.TOPIC_NOT_DEPLOYED
    if absent:
        return topic_missing(*absent, known=known, code=code)
    return refused(code, error.message, hint=topic_missing(*topics, known=None).hint)


async def find_deleted_topics(cluster: Cluster, topics: Iterable[str]) -> list[str]:
    """Return those of these topics that do not exist any more; none if the Master does not name the topics."""
    known = await _topic_names(cluster)
    return [] if known is None else [topic for topic in topics if topic not in known]


async def _topic_names(cluster: Cluster) -> tuple[str, ...] | None:
    discovery = RouteDiscovery(cluster, ())
    try:
        await discovery.register()
        known = await known_topics(discovery)
        await discovery.goodbye()
    except TubeError:
        return None
    return known


def add_hint(error: GroupMismatchError | NotAllowedError, hints: Mapping[int, str] | None = None) -> RefusedError:
    """Return the refusal with a hint; `hints` by code come before those of this module."""
    otherwise = _OTHERWISE if isinstance(error, GroupMismatchError) else error.hint
    hint = None if _GRANT in error.message else {**_HINTS, **(hints or {})}.get(error.code or 0, otherwise)
    return refused(error.code or Code.BAD_REQUEST, error.message, hint=hint)
