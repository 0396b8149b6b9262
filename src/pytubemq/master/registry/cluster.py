"""Settings of the whole cluster: the defaults of Brokers and topics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytubemq.errors import BadRequestError, Code
from pytubemq.model.records import BUILT_IN_PROPS, ClusterRecord, TopicProps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.master.catalogue.catalogue import Catalogue
    from pytubemq.master.registry.audit import Audit
    from pytubemq.master.registry.topic_change import TopicChange


class ClusterRegistry:
    """The one record of the cluster."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @property
    def is_set(self) -> bool:
        """True if an operator has ever set anything; until then the built-in values apply."""
        return self._catalogue.cluster.stamp.serial_id >= 0

    async def set_defaults(self, given: Mapping[str, Any], props: TopicProps, *, by: Audit) -> ClusterRecord:
        """Set fields of `ClusterRecord`, where what is not given stays, and all properties: the built-in for others.

        So does the original; it also drops the rules of flow control that are not given again, which stay here.

        Raises:
            BadRequestError: a Broker's pages would have the port of another of its servers, or nothing would change.
        """
        return await self._put(given, props.over(BUILT_IN_PROPS), by=by)

    async def update_defaults(self, given: Mapping[str, Any], props: TopicProps, *, by: Audit) -> ClusterRecord:
        """Change the given fields of `ClusterRecord` and properties, and leave the rest.

        Raises:
            BadRequestError: a Broker's pages would have the port of another of its servers, or nothing would change.
        """
        return await self._put(given, props, by=by)

    async def alter(self, change: TopicChange, *, by: Audit) -> None:
        """Change the cluster's defaults for topics; no error where nothing changes.

        A property that a change gives up gets its built-in value.
        """
        async with self._catalogue.lock:
            now = self._catalogue.cluster
            given = {
                name: getattr(BUILT_IN_PROPS, name) if value is None else value for name, value in change.props.items()
            }
            wanted = replace(
                now,
                props=replace(now.props.over(BUILT_IN_PROPS), **given),
                max_message_bytes=change.max_message_bytes or now.max_message_bytes,
            )
            if wanted != now:
                stamp = by.changed(now.stamp) if self.is_set else by.made()
                await self._catalogue.apply([replace(wanted, stamp=stamp)])

    async def _put(self, given: Mapping[str, Any], props: TopicProps, *, by: Audit) -> ClusterRecord:
        async with self._catalogue.lock:
            now = self._catalogue.cluster
            wanted = replace(now, **given, props=props.over(now.props.over(BUILT_IN_PROPS)))
            if wanted.broker_web_port in (wanted.broker_port, wanted.broker_tls_port):
                raise BadRequestError(
                    f"brokerWebPort {wanted.broker_web_port} is also brokerPort or brokerTLSPort",
                    hint="give each server of a Broker a port of its own",
                    code=Code.BAD_REQUEST,
                )
            if wanted == now and self.is_set:
                raise BadRequestError(
                    "the cluster's defaults have these values already",
                    hint="nothing to do",
                    code=Code.BAD_REQUEST,
                )
            stamp = by.changed(now.stamp) if self.is_set else by.made()
            await self._catalogue.apply([replace(wanted, stamp=stamp)])
            return self._catalogue.cluster
