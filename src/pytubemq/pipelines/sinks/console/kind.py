"""The kind of the console sink: rows on the screen."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pytubemq.model.suggest import suggest
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import Guarantee
from pytubemq.pipelines.file.sink_kind import DeadLetterKind, Promise, SinkKind, Wrong

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.model import Sink

ROWS: Final = "rows"
"""The one option: how many rows of a batch it prints."""
MAX_ROWS: Final = 10_000


def _wrong(sink: Sink) -> Iterator[Wrong]:
    for name, value in sink.options.items():
        if name.lower() != ROWS:
            suggestion = suggest(name, [ROWS])
            hint = f"did you mean {ROWS}?" if suggestion else f"the only option is {ROWS}"
            yield _of_option(name, "is not an option of the console", hint, at_key=True)
            continue
        number = int(value) if re.fullmatch(r"[0-9]{1,9}", value) else 0
        if "${" not in value and not 0 < number <= MAX_ROWS:
            yield _of_option(name, f"{value!r} is not a number from 1 to {MAX_ROWS}")


def _of_option(name: str, message: str, hint: str | None = None, *, at_key: bool = False) -> Wrong:
    return Wrong(f"options.{name}", message, hint, at_key=at_key, code=FaultCode.SINK_OPTION)


KIND: Final = SinkKind(
    name="console",
    promises={"": Promise(Guarantee.AT_LEAST_ONCE, "a replay prints the batch again")},
    wrong=_wrong,
    is_shared=True,
    again="rows are printed",
    dead_letters=DeadLetterKind(),
    template="""
sinks:
  - name: lake
    format: console
""",
)
