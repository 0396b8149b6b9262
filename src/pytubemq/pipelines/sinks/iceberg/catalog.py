"""An Iceberg catalog, opened by Iceberg's own Java library in the driver.

Iceberg's catalog for Spark is not used: that of Spark 4.1 cannot be loaded by Spark 4.2, and there is none for 4.2. The
catalog is configured as for Spark all the same (`spark.sql.catalog.NAME.*`). The invariant: whoever opens one closes
it; a catalog holds connections, or a client with threads of its own, that nothing else gives back.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from pytubemq.errors import ConfigError
from pytubemq.pipelines.sinks.iceberg.kind import PACKAGE
from pytubemq.pipelines.spark_faults import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@contextmanager
def iceberg_catalog(spark: SparkSession, name: str) -> Iterator[Any]:
    """Open the catalog that the session's settings describe, as a Java object, for as long as the block lasts.

    Raises:
        ConfigError: they describe none of this name, or the session has no Iceberg.
        PipelineError: it cannot be opened.
    """
    from py4j.protocol import Py4JError

    catalog = _opened(spark, name)
    try:
        yield catalog
    finally:
        with suppress(Py4JError):  # some have nothing to close; and what it was asked to do is done, or was refused
            catalog.close()


def _opened(spark: Any, name: str) -> Any:
    from py4j.protocol import Py4JJavaError

    jvm = spark.sparkContext._jvm
    prefix = f"spark.sql.catalog.{name}."
    properties = jvm.java.util.HashMap()
    for key, value in spark.conf.getAll.items():
        if key.startswith(prefix):
            properties.put(key.removeprefix(prefix), value)
    if properties.isEmpty():
        raise ConfigError(
            f"the Spark session has no Iceberg catalog {name}",
            hint=f"set in the pipeline's spark: conf: {prefix}type and {prefix}warehouse (or uri), as for Spark",
        )
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    try:
        return jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(name, properties, hadoop)
    except TypeError as error:  # a package that the JVM does not have cannot be called
        raise ConfigError(
            "the Spark session has no Iceberg", hint=f"add to the pipeline's spark: packages: [{PACKAGE}]"
        ) from error
    except Py4JJavaError as error:
        raise PipelineError(
            f"the Iceberg catalog {name} cannot be opened: {error.java_exception.getMessage()}"
        ) from error
