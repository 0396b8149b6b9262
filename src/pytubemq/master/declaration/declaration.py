"""The declared metadata of a cluster: what an export has, and what a file may name.

The invariant: it holds no secret and no state of a moment (stamps, offsets, members), so two exports of an unchanged
cluster are equal. A key that is not given says nothing: the value stays, or is the default of a new entry.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

FORMAT: Final = 1
"""The version of the format; a later one is refused by this version."""


class Declared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a declaration; only the keys that are given are in it."""


class TopicSettings(Declared, frozen=True, kw_only=True):
    """Properties of topics, which each layer may set: a topic's Brokers, the topic, a Broker, the cluster.

    `partitions` is the number on each Broker, in each of `num_topic_stores` stores; `retention` is as in `72h,10GB`.
    The word `default` for a retention or a durability uses the layer below.
    """

    partitions: int | UnsetType = UNSET
    num_topic_stores: int | UnsetType = UNSET
    retention: str | UnsetType = UNSET
    durability: str | UnsetType = UNSET
    accept_publish: bool | UnsetType = UNSET
    accept_subscribe: bool | UnsetType = UNSET
    unflush_threshold: int | UnsetType = UNSET
    unflush_interval: int | UnsetType = UNSET
    unflush_data_hold: int | UnsetType = UNSET
    mem_cache_msg_size_in_mb: int | UnsetType = UNSET
    mem_cache_msg_cnt_in_k: int | UnsetType = UNSET
    mem_cache_flush_intvl: int | UnsetType = UNSET


class DeclaredCluster(TopicSettings, frozen=True, kw_only=True):
    """Settings of the whole cluster, and the defaults for topics and Brokers; `flow_ctrl_info` are rules as JSON."""

    max_message_bytes: int | UnsetType = UNSET
    qry_priority_id: int | UnsetType = UNSET
    flow_ctrl_enable: bool | UnsetType = UNSET
    flow_ctrl_info: str | UnsetType = UNSET
    broker_port: int | UnsetType = UNSET
    broker_tls_port: int | UnsetType = UNSET
    broker_web_port: int | UnsetType = UNSET


class DeclaredBroker(TopicSettings, frozen=True, kw_only=True):
    """A Broker, and its defaults for topics; a new one needs its `address`, as `10.0.0.7:8123`."""

    address: str | UnsetType = UNSET
    tls_port: int | UnsetType = UNSET
    web_port: int | UnsetType = UNSET
    region_id: int | UnsetType = UNSET
    group_id: int | UnsetType = UNSET
    manage_status: str | UnsetType = UNSET


class DeclaredTopic(TopicSettings, frozen=True, kw_only=True):
    """A topic, its `brokers`, and what differs `on` some of them, by the Broker's id.

    Without `brokers` a topic stays where it is, and a new one is created on every Broker in use.
    """

    brokers: list[int] | UnsetType = UNSET
    max_message_bytes: int | UnsetType = UNSET
    enable_auth_control: bool | UnsetType = UNSET
    topic_name_id: int | UnsetType = UNSET
    on: dict[str, TopicSettings] | UnsetType = UNSET


class DeclaredConsumption(Declared, frozen=True, kw_only=True):
    """The rules for one group in one topic."""

    consume_enable: bool | UnsetType = UNSET
    disable_csm_rsn: str | UnsetType = UNSET
    filter_enable: bool | UnsetType = UNSET
    filter_conds: list[str] | UnsetType = UNSET


class DeclaredGroup(Declared, frozen=True, kw_only=True):
    """Settings of a consumer group, and its rules by topic; `flow_ctrl_info` are flow-control rules as JSON."""

    res_check_enable: bool | UnsetType = UNSET
    alwd_broker_client_rate: int | UnsetType = UNSET
    qry_priority_id: int | UnsetType = UNSET
    flow_ctrl_enable: bool | UnsetType = UNSET
    flow_ctrl_info: str | UnsetType = UNSET
    topics: dict[str, DeclaredConsumption] | UnsetType = UNSET


class DeclaredUser(Declared, frozen=True, kw_only=True):
    """A user and its permissions, each as `produce topic orders*`; never a secret, a password or a token."""

    enabled: bool | UnsetType = UNSET
    permissions: list[str] | UnsetType = UNSET


class Declaration(Declared, frozen=True, kw_only=True):
    """The metadata of a cluster. A section that is not given is left alone, whatever is pruned."""

    format: int | UnsetType = UNSET
    cluster: DeclaredCluster | UnsetType = UNSET
    brokers: dict[str, DeclaredBroker] | UnsetType = UNSET
    topics: dict[str, DeclaredTopic] | UnsetType = UNSET
    groups: dict[str, DeclaredGroup] | UnsetType = UNSET
    users: dict[str, DeclaredUser] | UnsetType = UNSET
