"""A catalog may hold connections and threads: each use of a table gives its own back, however it ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.model import Sink
from pytubemq.pipelines.sinks.iceberg.catalog import iceberg_catalog
from pytubemq.pipelines.sinks.sink_factory import make_sink
from pytubemq.pipelines.sinks.sink_writer import SinkContext

SINK = Sink("out", "iceberg", table="lake.db.t")


class Properties(dict[str, str]):
    put = dict.__setitem__

    def isEmpty(self) -> bool:
        return not self


class Catalog:
    """One without tables, or that cannot be asked."""

    def __init__(self, session: Session) -> None:
        self._session = session
        session.open += 1

    def tableExists(self, identifier: object) -> bool:
        if self._session.is_away:
            raise ConnectionError("the database is away")
        return False

    def close(self) -> None:
        self._session.open -= 1
        if not self._session.closes:
            raise Py4JError("Method close([]) does not exist")


class Session:
    """What is asked of a Spark session, and how many catalogs are open."""

    def __init__(self) -> None:
        self.open = 0
        self.is_away = False
        self.closes = True
        iceberg = SimpleNamespace(
            CatalogUtil=SimpleNamespace(buildIcebergCatalog=lambda name, properties, hadoop: Catalog(self)),
            catalog=SimpleNamespace(TableIdentifier=SimpleNamespace(parse=str)),
        )
        jvm = SimpleNamespace(
            java=SimpleNamespace(util=SimpleNamespace(HashMap=Properties)),
            org=SimpleNamespace(apache=SimpleNamespace(iceberg=iceberg)),
        )
        self.sparkContext = SimpleNamespace(_jvm=jvm)
        self.conf = SimpleNamespace(getAll={"spark.sql.catalog.lake.type": "jdbc"})
        state = SimpleNamespace(newHadoopConf=lambda: None)
        self._jsparkSession = SimpleNamespace(sessionState=lambda: state)


def test_each_use_of_a_table_closes_its_catalog() -> None:
    session: Any = Session()
    writer = make_sink(SINK)
    writer.check(session, None)
    assert writer.done(0, SinkContext(session, "p")) is None
    assert session.open == 0
    session.is_away = True
    with pytest.raises(ConnectionError):
        writer.done(0, SinkContext(session, "p"))
    assert session.open == 0


def test_a_catalog_that_has_nothing_to_close_takes_nothing_from_what_was_done_with_it() -> None:
    session: Any = Session()
    session.closes = False
    with iceberg_catalog(session, "lake"):
        assert session.open == 1
    assert session.open == 0


def test_a_catalog_that_the_session_does_not_describe_is_refused() -> None:
    session: Any = Session()
    with pytest.raises(ConfigError, match="no Iceberg catalog other"), iceberg_catalog(session, "other"):
        pass
