"""All changes that an administrator may make, by subject."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.master.registry.brokers import BrokerRegistry
from pytubemq.master.registry.cluster import ClusterRegistry
from pytubemq.master.registry.consumes import ConsumeRegistry
from pytubemq.master.registry.groups import GroupRegistry
from pytubemq.master.registry.topics import TopicRegistry
from pytubemq.master.registry.user_tokens import UserTokenRegistry
from pytubemq.master.registry.users import SECRET_BYTES, UserRegistry

if TYPE_CHECKING:
    from pytubemq.master.access.access import Access
    from pytubemq.master.brokers.brokers import Brokers
    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.registry.broker_waits import BrokerWaits


@dataclass(frozen=True, slots=True)
class Registry:
    """Reached as `MasterService.registry`."""

    cluster: ClusterRegistry
    brokers: BrokerRegistry
    topics: TopicRegistry
    consumes: ConsumeRegistry
    groups: GroupRegistry
    users: UserRegistry
    user_tokens: UserTokenRegistry
    waits: BrokerWaits
    """The waits until Brokers have applied a change."""


def make_registry(catalogue: Catalogue, brokers: Brokers, access: Access, waits: BrokerWaits) -> Registry:
    """Create the registries of one Master."""
    return Registry(
        ClusterRegistry(catalogue),
        BrokerRegistry(catalogue, brokers),
        TopicRegistry(catalogue),
        ConsumeRegistry(catalogue),
        GroupRegistry(catalogue),
        UserRegistry(
            catalogue,
            access.sealer,
            os.urandom,
            lambda: secrets.token_urlsafe(SECRET_BYTES),
            access.sessions.brokers_of,
        ),
        UserTokenRegistry(catalogue, secrets.token_hex, secrets.token_urlsafe),
        waits,
    )
