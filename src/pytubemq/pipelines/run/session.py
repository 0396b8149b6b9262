"""The Spark session of a run: made with the settings that suit the source, or the caller's, looked over.

The invariant: a run never begins in a session with a setting that is known to hang it or to double its rows.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import MissingExtraError
from pytubemq.pipelines.file.model import SparkSettings
from pytubemq.pipelines.file.secrets import resolve
from pytubemq.pipelines.file.sink_table import sink_kind
from pytubemq.pipelines.rules.environment.safe_spark_settings import REFUSED, check_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from pytubemq.pipelines.file.model import Pipeline

DEFAULTS: Final = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.speculation": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}
COLLECTOR: Final = ("spark.driver.defaultJavaOptions", "-XX:+UseParallelGC")
"""Of a session on this machine alone: it takes an eighth less processor time to write rows than the JVM's own choice
(docs/design/spark-speed.md)."""
_JAVA_OPTIONS: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


def present_session() -> SparkSession | None:
    """Return the session that already exists: this thread's, else the process's; None if there is none."""
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        return None  # `open_session` says what is missing
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if SparkContext._active_spark_context is None:
        return None
    builder: Any = SparkSession.builder
    made: SparkSession = builder.getOrCreate()
    return made


def unheeded(pipeline: Pipeline, session: SparkSession) -> list[str]:
    """List the pipeline's `spark` settings that an existing session does not follow, as `spark.x = y`; no values of
    conf, which may be secret.
    """
    wanted = pipeline.spark
    conf: Any = session.sparkContext.getConf()
    found = [f"spark.conf.{key}" for key, value in wanted.conf.items() if _setting(session, key) != resolve(value)]
    master = resolve(wanted.master)
    if master not in (SparkSettings().master, conf.get("spark.master")):
        found.append(f"spark.master = {master}")
    for name, key in (("packages", "spark.jars.packages"), ("jars", "spark.jars")):
        there = str(conf.get(key, "") or "").split(",")
        found += [f"spark.{name}: {one}" for one in getattr(wanted, name) if resolve(one) not in there]
    return found


@contextlib.contextmanager
def session_of(pipeline: Pipeline) -> Iterator[SparkSession]:
    """Provide the session that a run would have; stop it at the end if it was made here.

    Raises:
        ConfigError: a setting is refused.
        MissingExtraError: pyspark is not installed.
    """
    active = present_session()
    session = active or open_session(pipeline)
    try:
        yield session
    finally:
        if active is None:
            session.stop()


def _setting(session: SparkSession, key: str) -> str | None:
    value = session.conf.get(key, None)
    return value if value is not None else session.sparkContext.getConf().get(key)


def open_session(pipeline: Pipeline, *, formats: Iterable[str] | None = None) -> SparkSession:
    """Return the existing session, if there is one, else open one as the pipeline's `spark` says.

    Raises:
        ConfigError: a setting is refused.
        MissingExtraError: pyspark is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtraError("local-spark", "a pipeline") from error
    there = present_session()
    if there is not None:
        check_session(there)
        return there
    if formats is None:
        formats = [sink.format for sink in pipeline.sinks]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    submitted = "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    given = _submitted_settings() if submitted else {}
    wanted = settings(pipeline, formats, submitted=submitted)
    for key, value in wanted.items():
        if key not in given:
            builder = builder.config(key, value)
    _start_jvm(wanted)
    session: SparkSession = builder.getOrCreate()
    check_session(session)
    return session


def _start_jvm(wanted: Mapping[str, str]) -> None:
    """Start Spark's JVM, if there is none, in a process group of its own: a signal to ours, as of a terminal or of
    `timeout`, is for the run, which ends after its batch and needs Spark until then. A JVM whose Python process is gone
    ends by itself.
    """
    from pyspark import SparkConf, SparkContext, java_gateway

    if SparkContext._gateway is None:
        launch: Any = java_gateway.launch_gateway
        conf = SparkConf().setAll(list(wanted.items()))
        SparkContext._ensure_initialized(gateway=launch(conf, {"process_group": 0}))


def _submitted_settings() -> dict[str, str]:
    """Return the settings given to spark-submit, which take precedence over the pipeline's."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    given = dict(SparkConf().getAll())
    if given.get("spark.app.name") == os.path.basename(sys.argv[0]):  # nobody's: spark-submit takes the script's
        del given["spark.app.name"]
    return given


def settings(pipeline: Pipeline, formats: Iterable[str], *, submitted: bool = False) -> dict[str, str]:
    """Return the settings of a session for this pipeline; under spark-submit its own master and packages stay.

    Raises:
        ConfigError: a setting of the pipeline is refused.
    """
    wanted = dict(DEFAULTS)
    wanted["spark.app.name"] = pipeline.name
    if not submitted:
        wanted["spark.master"] = resolve(pipeline.spark.master)
        if wanted["spark.master"].startswith("local"):
            wanted |= LOCAL
            if not _names_collector(pipeline):
                wanted.setdefault(*COLLECTOR)
    if pipeline.spark.packages:
        wanted["spark.jars.packages"] = ",".join(resolve(one) for one in pipeline.spark.packages)
    if pipeline.spark.jars:
        wanted["spark.jars"] = ",".join(resolve(one) for one in pipeline.spark.jars)
    for name in formats:
        wanted |= sink_kind(name).settings
    wanted |= {key: resolve(value) for key, value in pipeline.spark.conf.items()}
    check_settings(wanted)
    return wanted


def _names_collector(pipeline: Pipeline) -> bool:
    """True if a garbage collector is chosen already: a JVM with two does not start."""
    options = [value for key, value in pipeline.spark.conf.items() if key.endswith("JavaOptions")]
    options += [os.environ.get(name, "") for name in _JAVA_OPTIONS]
    return any(re.search(r"-XX:\+Use\w+GC\b", resolve(one)) for one in options)


def check_session(session: SparkSession) -> None:
    """Refuse a session that somebody else made, if its settings are refused.

    Raises:
        ConfigError: naming the setting and the reason.
    """
    check_settings({name: _setting(session, name) or "" for name in REFUSED})
