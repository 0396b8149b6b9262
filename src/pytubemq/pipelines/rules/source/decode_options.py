"""The format of `decode` and its options: as the decoder itself takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.analysis.refused_options import names, refused_options
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report options that the decoder refuses."""
    decode = context.pipeline.decode
    if decode is None:
        return
    from pytubemq.decode.format_options import choose

    def ask(options: Mapping[str, str]) -> None:
        choose(decode.format, options, inner=decode.inner, has_schema=decode.schema is not None)

    for error, option in refused_options(ask, decode.options):
        if option is not None:
            path = f"decode.options.{option}"
        elif "decode.inner" in error.message or "inside" in error.message or names(error.message, decode.inner):
            path = "decode.inner"
        else:
            path = "decode.format"
        yield context.fault(FaultCode.DECODE_OPTION, path, error.message, error.hint)
