"""The schema of `decode`: columns as Spark writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report a schema that is none, or that names a column twice."""
    schema = context.pipeline.decode.schema if context.pipeline.decode is not None else None
    if schema is None or "${" in schema:
        return
    from pytubemq.decode.columns import check_names, parse_columns

    try:
        check_names(parse_columns(schema))
    except ConfigError as error:
        yield context.fault(FaultCode.BAD_VALUE, "decode.schema", error.message, error.hint)
