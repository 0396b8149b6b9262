"""Makes `format("tubemq")` known to Spark: it looks for `DefaultSource` in every installed `pyspark_*` module.

The invariant: importing this module is cheap and never fails. It runs in every Spark application that has the package
installed, and one import that fails would break the look-up of all other sources. So `DefaultSource` is only made when
it is asked for, and without pyspark there is simply none.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "DefaultSource":
        try:
            from pytubemq.spark.source.data_source import TubeMqDataSource
        except Exception as error:  # whatever is wrong with it, other sources must still be found
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {error}") from error
        return TubeMqDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
