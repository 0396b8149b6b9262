"""All changes that an administrator may make, by subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.master.registry.brokers import BrokerRegistry
from pytubemq.master.registry.cluster import ClusterRegistry
from pytubemq.master.registry.consumes import ConsumeRegistry
from pytubemq.master.registry.groups import GroupRegistry
from pytubemq.master.registry.topics import TopicRegistry

if TYPE_CHECKING:
    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue


@dataclass(frozen=True, slots=True)
class Registry:
    """Reached as `MasterService.registry`."""

    cluster: ClusterRegistry
    brokers: BrokerRegistry
    topics: TopicRegistry
    consumes: ConsumeRegistry
    groups: GroupRegistry


def make_registry(catalogue: Catalogue, brokers: Brokers) -> Registry:
    """Create the registries of one Master."""
    return Registry(
        ClusterRegistry(catalogue),
        BrokerRegistry(catalogue, brokers),
        TopicRegistry(catalogue),
        ConsumeRegistry(catalogue),
        GroupRegistry(catalogue),
    )
