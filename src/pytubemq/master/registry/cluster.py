"""What holds for the whole cluster: the defaults of Brokers and topics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytubemq.errors import BadRequestError, Code
from pytubemq.model.records import BUILT_IN_PROPS, ClusterRecord, TopicProps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.master.catalogue import Catalogue
    from pytubemq.master.registry.audit import Audit


class ClusterRegistry:
    """The one record of the cluster."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @property
    def is_set(self) -> bool:
        """Whether anything was ever set; until then the built-in values hold."""
        return self._catalogue.cluster.stamp.serial_id >= 0

    async def set_defaults(self, given: Mapping[str, Any], props: TopicProps, *, by: Audit) -> ClusterRecord:
        """Set all defaults: fields of `ClusterRecord` and properties that are given, the built-in values for others.

        Raises:
            BadRequestError: two servers of a Broker would have one port.
        """
        return await self._put(ClusterRecord(), given, props, by=by, fresh=True)

    async def update_defaults(self, given: Mapping[str, Any], props: TopicProps, *, by: Audit) -> ClusterRecord:
        """Change what is given and leave the rest.

        Raises:
            BadRequestError: two servers of a Broker would have one port, or nothing would be different.
        """
        return await self._put(None, given, props, by=by, fresh=not self.is_set)

    async def _put(
        self, start: ClusterRecord | None, given: Mapping[str, Any], props: TopicProps, *, by: Audit, fresh: bool
    ) -> ClusterRecord:
        async with self._catalogue.lock:
            now = self._catalogue.cluster
            start = now if start is None else start
            wanted = replace(start, **given, props=props.over(start.props.over(BUILT_IN_PROPS)), stamp=now.stamp)
            if wanted.broker_web_port in (wanted.broker_port, wanted.broker_tls_port):
                raise BadRequestError(
                    f"brokerWebPort {wanted.broker_web_port} is also brokerPort or brokerTLSPort",
                    hint="give each server of a Broker a port of its own",
                    code=Code.BAD_REQUEST,
                )
            if wanted == now and self.is_set and not fresh:
                raise BadRequestError(
                    "the cluster's defaults are as asked for already",
                    hint="nothing has to be done",
                    code=Code.BAD_REQUEST,
                )
            stamp = by.made() if fresh and not self.is_set else by.changed(now.stamp)
            await self._catalogue.apply([replace(wanted, stamp=stamp)])
            return self._catalogue.cluster
