"""What a mailbox is as a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.file.key import Key, Kind
from pytubemq.pipelines.file.model import Guarantee
from pytubemq.pipelines.file.sink_kind import DeadLetterKind, Promise, SinkKind, Wrong

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.file.sink_kind import Intake


def _case(sink: Sink, intake: Intake) -> str:
    return "registered" if "registered" in sink.options else "plain"


def _wrong(sink: Sink) -> Iterator[Wrong]:
    box = sink.value("box")
    if box and not box.isdecimal():
        yield Wrong("box", f"{box!r} is not the number of a mailbox", "as 4711")


KIND: Final = SinkKind(
    name="mailbox",
    keys=(Key("box", Kind.TEXT, "its number"), Key("size", Kind.CHOICE, "of letters", choices=("A4", "A5"))),
    needs=(("box",),),
    promises={
        "registered": Promise(Guarantee.EXACTLY_ONCE, "the post office writes down each letter"),
        "plain": Promise(Guarantee.AT_LEAST_ONCE, "a replay posts the letters again"),
    },
    case=_case,
    wrong=_wrong,
    set_by_runner=frozenset({"stamp"}),
    settings={"spark.mailbox.office": "open"},
    again="letters are posted again",
    dead_letters=DeadLetterKind(),
    template="""
sinks:
  - name: lake
    format: mailbox
    box: "4711"                            # of {name}
""",
)
