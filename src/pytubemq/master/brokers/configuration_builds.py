"""Configurations of Brokers that register, made in slices between which records may change.

The invariant: `finish` returns the configuration according to the records at that moment.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytubemq.master.brokers.configuration import changed_conf, first_conf
from pytubemq.master.brokers.slices import slices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytubemq.master.brokers.configuration import BrokerConf
    from pytubemq.master.catalogue.catalogue import Catalogue


class ConfBuild:
    """One configuration in the making."""

    def __init__(self, catalogue: Catalogue, broker_id: int) -> None:
        self.broker_id = broker_id
        self._catalogue = catalogue
        self._conf: BrokerConf | None = None
        self._changed: set[str] = set()

    async def run(self) -> None:
        """Make the strings of all topics as they are now."""
        names = self._catalogue.topics_on(self.broker_id)
        making = first_conf(self._catalogue, self.broker_id)
        async for some in slices(sorted(names)):
            making.add(self._catalogue, self.broker_id, some)
        self._conf = making.conf()

    def note(self, topics: Iterable[str]) -> None:
        """Take notice of topics whose records changed."""
        self._changed.update(topics)

    def finish(self, *, first_id: int) -> BrokerConf:
        """Return the configuration as of now, with this confId."""
        if self._conf is None:
            raise RuntimeError("the configuration has not been made")
        return changed_conf(self._catalogue, self.broker_id, self._conf, self._changed).with_id(first_id)


class ConfBuilds:
    """All configurations in the making."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._builds: dict[ConfBuild, None] = {}

    @contextmanager
    def build(self, broker_id: int) -> Iterator[ConfBuild]:
        """Begin one; it follows the records until the block ends."""
        build = ConfBuild(self._catalogue, broker_id)
        self._builds[build] = None
        try:
            yield build
        finally:
            del self._builds[build]

    def of(self, broker_id: int) -> list[ConfBuild]:
        """Return those of a Broker."""
        return [build for build in self._builds if build.broker_id == broker_id]

    def brokers(self) -> set[int]:
        """Return the ids of their Brokers."""
        return {build.broker_id for build in self._builds}
