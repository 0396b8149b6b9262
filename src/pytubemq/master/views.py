"""Views of the cluster for people and programs: plain values, as the JSON API returns them.

Times are ISO 8601 in UTC; lags and offsets are in messages where the name says so, else in the protocol's units.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pytubemq.core.reset_target import utc

iso = utc
"""The text form of every time in these views, also of one out of range that a Broker sent."""


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A response."""


class PartitionView(View, frozen=True, kw_only=True):
    """A partition; the offsets are None when its Broker could not be asked."""

    broker: int
    partition: int
    min_offset: int | None = None
    max_offset: int | None = None
    messages: int | None = None


class TopicPlace(View, frozen=True, kw_only=True):
    """A topic on one Broker; `ready` once the Broker has reported it.

    `publish` and `subscribe`: producers may send to it there, consumers read it there, now. `why` says why not.
    """

    broker: int
    partitions: int
    ready: bool
    publish: bool
    subscribe: bool
    why: str


class TopicView(View, frozen=True, kw_only=True):
    """A topic. `partitions` counts those of all Brokers, `messages` what is kept now (None: not all is known).

    `retention` is `delete_policy` in short. `retention_from` and `durability_from` name the layer that sets it:
    `topic`, `broker` (the Master's record of it), `cluster`, or `default`: the built-in value, for the durability the
    setting of the Brokers. Brokers that differ are divided by ` / `.

    `state` is `deployed`, `removing` (deleted, until its Brokers have reported that it is gone), or `undeployed`: there
    is a record, and no Broker has it. `why` names the Brokers that have it and are not online, each with its state.

    `unreachable` names the Brokers that did not answer, `unsupported` those that answer but do not support the request
    (Java Brokers).
    """

    name: str
    state: str
    partitions: int
    brokers: list[int]
    messages: int | None
    max_message_bytes: int
    delete_policy: str
    retention: str
    retention_from: str
    durability: str
    durability_from: str
    created: str
    places: list[TopicPlace]
    why: str = ""
    unreachable: list[str] = msgspec.field(default_factory=list)
    unsupported: list[str] = msgspec.field(default_factory=list)


class TopicDetail(TopicView, frozen=True, kw_only=True):
    """A topic with its partitions; `problems` are those that its Brokers report for some of these."""

    problems: list[str]
    partition_list: list[PartitionView]


class DefaultsView(View, frozen=True, kw_only=True):
    """The cluster's defaults for topics; `..._from` as in `TopicView`, `cluster` or `default`."""

    retention: str
    retention_from: str
    delete_policy: str
    durability: str
    durability_from: str
    max_message_bytes: int


class PendingRemoval(View, frozen=True, kw_only=True):
    """A Broker that a topic is still to be removed from, and why it is not yet."""

    broker: int
    why: str


class TopicRemoval(View, frozen=True, kw_only=True):
    """The result of a removal: done (`removed`), or under way at the Brokers in `pending`.

    `record_kept`: the topic is gone, and the rules about who may consume it are left.
    """

    name: str
    removed: bool
    pending: list[PendingRemoval]
    record_kept: bool


class TopicsCreated(View, frozen=True, kw_only=True):
    """The names of the topics that a call has created, and of those that were in use already."""

    created: list[str]
    existing: list[str]


class UnknownTopic(View, frozen=True, kw_only=True):
    """A topic on a Broker that the Master had no record of; `partitions` in each of its stores.

    Its `retention` is `keep` if the Broker does not know its settings either.
    """

    topic: str
    broker: int
    partitions: int
    retention: str


class TopicsAdopted(View, frozen=True, kw_only=True):
    """The topics that were taken over from Brokers, or discarded."""

    adopted: list[UnknownTopic]
    discarded: list[UnknownTopic]


class BrokerView(View, frozen=True, kw_only=True):
    """A Broker. `state` is `online`, `starting` (registered, not yet serving), `away`, or `offline` or `draft` where an
    operator has set it so, whether it runs or not; `why` says more.

    `manage_status` is what an operator lets it do: `draft`, `online`, `only-read`, `only-write` or `offline`.
    """

    id: int
    address: str
    state: str
    why: str
    version: str
    manage_status: str
    in_sync: bool
    topics: int
    since: str | None


class MemberView(View, frozen=True, kw_only=True):
    """A consumer; `partitions` as `brokerId:topic:partitionId`, `pending` the event that it is being sent now."""

    id: str
    host: str
    peer: str
    joined: str
    partitions: list[str]
    pending: str | None


class LagView(View, frozen=True, kw_only=True):
    """A group's lag in one partition. `confirmed` None: it has confirmed nothing there yet."""

    partition: str
    topic: str
    holder: str | None
    confirmed: int | None
    max_offset: int | None
    lag_messages: int | None


class GroupView(View, frozen=True, kw_only=True):
    """A group. `state` is `stable`, `balancing`, `empty` (no members) or, of one group that was asked for, `absent` (it
    has confirmed nothing either); the lag is None if not all is known: see `unreachable` and
    `unsupported`, as in `TopicView`.

    `kind` is `server-balance`, `bound` or `client-balance`, by who shares the partitions out; of a group without
    members it is not known.
    """

    name: str
    state: str
    kind: str
    topics: list[str]
    members: int
    lag_messages: int | None
    unreachable: list[str] = msgspec.field(default_factory=list)
    unsupported: list[str] = msgspec.field(default_factory=list)


class ClosedTopic(View, frozen=True, kw_only=True):
    """A topic of a group that its members get nothing of, or will not get at their next registration; and why."""

    topic: str
    why: str


class GroupDetail(GroupView, frozen=True, kw_only=True):
    """A group with its members, the topics that are closed for it, and the lag per partition.

    `closed` also names topics that a record forbids to it and that it does not read now.

    `why` says why it, or some of its members, gets no messages; blank if all do.
    """

    why: str
    closed: list[ClosedTopic]
    member_list: list[MemberView]
    lag: list[LagView]


class MovedPosition(View, frozen=True, kw_only=True):
    """A group's position in one partition, before and after; `old_offset` None: it had none. Lags are in messages."""

    partition: str
    old_offset: int | None
    new_offset: int
    old_lag: int | None
    new_lag: int | None


class GroupReset(View, frozen=True, kw_only=True):
    """A group that was moved, or with `dry_run` would be moved. `to` is the target as text."""

    group: str
    to: str
    dry_run: bool
    partitions: list[MovedPosition]


class PastReset(View, frozen=True, kw_only=True):
    """One position that somebody moved; `asked` is the target as text."""

    time: str
    user: str
    group: str
    partition: str
    asked: str
    old_offset: int | None
    new_offset: int


class ResetHistory(View, frozen=True, kw_only=True):
    """The newest moves first, of all Brokers; `unreachable` and `unsupported` as in `TopicView`."""

    resets: list[PastReset]
    unreachable: list[str]
    unsupported: list[str]


class Reason(View, frozen=True, kw_only=True):
    """A problem, and what to do about it."""

    thing: str
    why: str
    hint: str


class Health(View, frozen=True, kw_only=True):
    """The verdict: `healthy`, or `degraded` with the reasons."""

    status: str
    reasons: list[Reason]
    version: str
    insecure: bool
    """Set by the Master's settings: no TLS, no authentication, and perhaps open to other machines."""
    brokers: int
    brokers_online: int
    topics: int
    groups_with_members: int
    producers: int
    consumers: int


class MasterView(View, frozen=True, kw_only=True):
    """A Master."""

    address: str
    version: str
    leads: bool
    since: str


class ClusterView(View, frozen=True, kw_only=True):
    """The cluster: its Masters and Brokers."""

    name: str
    version: str
    masters: list[MasterView]
    brokers: list[BrokerView]
    held_heartbeats: int
    rebalances: int


class PermissionView(View, frozen=True, kw_only=True):
    """A permission: an operation on the resources of a kind whose names a pattern covers."""

    operation: str
    kind: str
    pattern: str


class UserView(View, frozen=True, kw_only=True):
    """A user and what it is allowed; never its secret or its password."""

    name: str
    enabled: bool
    has_secret: bool
    has_password: bool
    permissions: list[PermissionView]
    changed_by: str
    changed_at: str


class SecretView(View, frozen=True, kw_only=True):
    """A secret that was just made; it is shown this once."""

    name: str
    secret: str


class PermissionTest(View, frozen=True, kw_only=True):
    """The answer to whether a user may do something; `by` is the permission that allows it."""

    name: str
    operation: str
    kind: str
    resource: str
    allowed: bool
    by: str | None = None


class SessionView(View, frozen=True, kw_only=True):
    """The caller over HTTP; `proof` is `session`, `bearer_token`, `oidc_token` (of the OIDC issuer), or `http_token`
    (`http.token` of the settings)."""

    user: str
    proof: str
    permissions: list[str]


class TokenView(View, frozen=True, kw_only=True):
    """A bearer token of a user, without its text; `expires_at` is null for one that does not expire."""

    user: str
    id: str
    created_by: str
    created_at: str
    expires_at: str | None


class MadeToken(View, frozen=True, kw_only=True):
    """A bearer token that was just made; its text is shown only here."""

    user: str
    id: str
    token: str
    expires_at: str | None


class AuditView(View, frozen=True, kw_only=True):
    """An entry of the audit trail: who (`user`) did what (`action`) to what (`target`) from where (`host`).

    `before` and `after` have the changed fields of each record; `outcome` is `done` or `refused`.
    """

    id: int
    time: str
    user: str
    host: str
    action: str
    target: str
    outcome: str
    before: dict[str, Any]
    after: dict[str, Any]
