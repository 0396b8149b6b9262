"""The bodies of requests to the JSON API, key by key.

A retention may be given in short (`retention`: `72h`, `10GB`, `72h,10GB`, `forever`) or as the policy that it stands
for (`delete_policy`: `delete,72h,10GB`, `keep`); `default` removes the own setting.

What a type alone does not say of a value is in the description of the API, as far as a schema can say it; the Master's
own checks decide, and their errors say more.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from pytubemq.errors import BadRequestError, Code
from pytubemq.master.registry.topic_change import DEFAULT, TopicChange, topic_change
from pytubemq.master.registry.user_tokens import MAX_TOKEN_DAYS
from pytubemq.master.registry.users import MAX_USER_NAME_CHARS
from pytubemq.model.durability import Durability
from pytubemq.model.limits import MAX_MESSAGE_BYTES, MAX_PARTITIONS_PER_TOPIC
from pytubemq.model.policy import policy_of_retention
from pytubemq.security.permissions import Operation, ResourceKind

_PARTITIONS: Final = Meta(extra_json_schema={"minimum": 1, "maximum": MAX_PARTITIONS_PER_TOPIC})
_TopicName: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": "^[a-zA-Z][a-zA-Z0-9_]{0,63}$"})]
_UserName: TypeAlias = Annotated[
    str, Meta(extra_json_schema={"pattern": "^[^ @#:,/]+$", "maxLength": MAX_USER_NAME_CHARS})
]
_MessageBytes: TypeAlias = Annotated[int | None, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_MESSAGE_BYTES})]
_Durability: TypeAlias = Annotated[
    str | None, Meta(extra_json_schema={"enum": [*(one.value for one in Durability), DEFAULT, None]})
]
_OperationName: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": [one.value for one in Operation]})]
_KindName: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": [one.value for one in ResourceKind]})]
_Days: TypeAlias = Annotated[int | None, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_TOKEN_DAYS})]


class ChangedDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's defaults for topics: sizes in bytes, `durability` disk, process or memory."""

    max_message_bytes: _MessageBytes = None
    delete_policy: str | None = None
    retention: str | None = None
    durability: _Durability = None


class ChangedTopic(ChangedDefaults, frozen=True, kw_only=True):
    """Changes to a topic; `partitions` on each Broker, which can only grow."""

    partitions: Annotated[int | None, _PARTITIONS] = None


class NewTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to be created, with `partitions` on each Broker; the rest as in `ChangedDefaults`."""

    name: _TopicName
    partitions: Annotated[int, _PARTITIONS] = 1
    max_message_bytes: _MessageBytes = None
    delete_policy: str | None = None
    retention: str | None = None
    durability: _Durability = None


class NewTopics(msgspec.Struct, frozen=True, kw_only=True):
    """Topics to create in one step, all or none; with `exist_ok` existing ones are left as they are."""

    topics: list[NewTopic]
    exist_ok: bool = False


class Adoption(msgspec.Struct, frozen=True, kw_only=True):
    """A request to take over, or to `discard`, the topics that Brokers hold and the Master does not know."""

    discard: bool = False


class NewReset(msgspec.Struct, frozen=True, kw_only=True):
    """The target of a group's reset.

    `to` is `earliest`, `latest`, a time (ISO 8601, with its zone), one ago (`-10m`), `offset:N` or `number:N`.
    `partitions` as in `0` (of each Broker), `1:0` (of Broker 1) or `1:demo:0`; all of the topic when none is named.
    """

    topic: str
    to: str
    partitions: list[str] = []
    dry_run: bool = False
    user: str | None = None


class _Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """A body with a secret, of which no text shows anything."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NewUser(_Secrets, frozen=True, kw_only=True):
    """A user to be created; without a `secret` a random one is made. `by` is who does it, for the records."""

    name: _UserName
    secret: str | None = None
    by: str | None = None


class NewSecret(_Secrets, frozen=True, kw_only=True):
    """Another secret for a user; without one a random one is made. `keep_tokens` keeps its bearer tokens."""

    secret: str | None = None
    keep_tokens: bool = False
    by: str | None = None


class ChangedUser(_Secrets, frozen=True, kw_only=True):
    """Changes to a user: whether it is enabled, and its password for HTTP.

    `force` disables it even if that locks out a Broker, or everyone from changing users; `keep_tokens` keeps its bearer
    tokens, which another password revokes.
    """

    enabled: bool | None = None
    password: str | None = None
    force: bool = False
    keep_tokens: bool = False
    by: str | None = None


class NewPermission(msgspec.Struct, frozen=True, kw_only=True):
    """An operation on the resources of a kind (`topic`, `group` or `cluster`) that a pattern covers."""

    operation: _OperationName
    kind: _KindName
    pattern: str = "*"
    by: str | None = None


class OldPermission(NewPermission, frozen=True, kw_only=True):
    """A permission to be revoked; with `force` even if that locks out a Broker, or everyone from changing users."""

    force: bool = False


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A bearer token to be made, which expires after some `days`, or never."""

    days: _Days = None
    by: str | None = None


class SignIn(_Secrets, frozen=True, kw_only=True):
    """A user and its password for HTTP."""

    user: str
    password: str


def changes_of(body: NewTopics) -> dict[str, TopicChange]:
    """Return the changes in a body, by topic name.

    Raises:
        BadRequestError: a topic is named twice, or its settings are invalid; the error names the topic.
    """
    found: dict[str, TopicChange] = {}
    for new in body.topics:
        if new.name in found:
            raise BadRequestError(f"topic {new.name} is named twice", hint="name it once", code=Code.BAD_REQUEST)
        try:
            found[new.name] = topic_change(
                partitions=new.partitions,
                max_message_bytes=new.max_message_bytes,
                delete_policy=policy_of(new),
                durability=new.durability,
            )
        except BadRequestError as error:
            raise BadRequestError(f"topic {new.name}: {error.message}", hint=error.hint, code=error.code) from error
    return found


def policy_of(body: ChangedDefaults | NewTopic) -> str | None:
    """Return a body's delete policy; None if it has none.

    Raises:
        BadRequestError: it is given in both ways, or is malformed.
    """
    if body.retention is None:
        return body.delete_policy
    if body.delete_policy is not None:
        raise BadRequestError(
            "both retention and delete_policy are given", hint="they are the same: leave one out", code=Code.BAD_REQUEST
        )
    return DEFAULT if body.retention.strip().lower() == DEFAULT else policy_of_retention(body.retention)
