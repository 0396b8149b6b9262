"""Names in the tests of a file: they expect sinks that it has, and give keys that a message has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import DEAD_LETTER
from pytubemq.pipelines.rules.hints import one_of
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import Case
    from pytubemq.pipelines.rules.rule import Context, Faults

MESSAGE_KEYS: Final = (
    "body", "attributes", "msgType", "msgTime", "topic", "brokerId", "partition", "offset", "timestamp", "messageId",
)  # fmt: skip


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report sinks that the file does not have, and messages that are none."""
    sinks = [*(sink.name for sink in context.pipeline.sinks), DEAD_LETTER]
    for index, case in enumerate(context.pipeline.tests):
        for name in case.expect:
            if name not in sinks:
                path = f"tests[{index}].expect.{name}"
                hint = one_of(name, sinks)
                yield context.fault(FaultCode.BAD_TEST, path, "no sink has this name", hint, at_key=True)
        if context.pipeline.source.format == "tubemq":
            yield from _messages(context, f"tests[{index}]", case)


def _messages(context: Context, path: str, case: Case) -> Faults:
    for row, message in enumerate(case.given):
        here = f"{path}.given[{row}]"
        for name in message:
            if name not in MESSAGE_KEYS:
                hint = one_of(name, MESSAGE_KEYS)
                yield context.fault(
                    FaultCode.BAD_TEST, f"{here}.{name}", "a message has no such key", hint, at_key=True
                )
        if "body" not in message:
            yield context.fault(FaultCode.BAD_TEST, here, "a message needs a body")
