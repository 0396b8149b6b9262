"""The environment of the Python processes in which Spark runs a Python source: one map for all its streams in a JVM.

Every stream that begins puts the same four names into it (`PythonStreamingSourceRunner.init`, Spark 4.2 and 4.3), with
no lock, though sessions share the map. Two that put a name at the same moment make it count six entries where it has
five; then no task that reads this source can be sent any more, from any session, until the JVM ends: "Illegal size 5 of
collection, expected 6".

The invariant: before a stream of ours begins, the names are there. To put one again changes its value only, which
harms nobody.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES: Final = ("SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME")
"""Spark gives each its value before it starts a process."""
_ONE_AT_A_TIME: Final = threading.Lock()


def environment_of(spark: SparkSession, source: str) -> Any:
    """Return the map (`java.util.Map`) of a Python source, by the name of its format."""
    session: Any = spark._jsparkSession
    return session.sessionState().dataSourceManager().lookupDataSource(source).dataSourceCls().envVars()


def complete_environment(spark: SparkSession, source: str) -> None:
    """Put the names into it that are not there yet. A Spark that keeps them elsewhere is left alone."""
    from py4j.protocol import Py4JError

    with contextlib.suppress(AttributeError, Py4JError), _ONE_AT_A_TIME:
        environment = environment_of(spark, source)
        for name in NAMES:
            environment.putIfAbsent(name, "")
