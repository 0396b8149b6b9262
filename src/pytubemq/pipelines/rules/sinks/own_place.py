"""Place of each sink, and of the dead letters: its own, for what one has is else taken for the other's.

Topics may be shared. Two texts of one place that no look at the file system distinguishes (`./tables/t`, `tables//t`)
are one; once references are known, paths are compared as the file system has them.
"""

from __future__ import annotations

import os
import posixpath
import re
from typing import TYPE_CHECKING, Final

from pytubemq.pipelines.analysis.default_place import with_place
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.model import DEAD_LETTER
from pytubemq.pipelines.file.sink_table import sink_kind
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.pipelines.file.model import Sink
    from pytubemq.pipelines.rules.rule import Context, Faults


_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)


@rule(Need.FILE, sharper=Need.VALUES)
def check(context: Context) -> Faults:
    """Report a place that an earlier sink has."""
    pipeline = context.pipeline
    written = {f"sinks[{index}]": sink for index, sink in enumerate(pipeline.sinks)}
    if pipeline.dead_letter is not None:
        written[DEAD_LETTER] = with_place(pipeline.dead_letter, f"{pipeline.state_or_default}/{DEAD_LETTER}").as_sink()
    local = os.path.realpath if Need.VALUES in context.sees else posixpath.normpath
    taken: dict[tuple[str, ...], str] = {}
    for path, sink in written.items():
        place = _place(context, sink, local)
        if place is not None and place in taken:
            text = f"is also the target of the sink {taken[place]}"
            hint = (
                "give each its own target; to write the rows of two steps to one target, join them with "
                "UNION ALL in a step"
            )
            key = next((key for key in ("path", "table", *sink.more) if sink.value(key)), "name")
            yield context.fault(FaultCode.CONTRADICTION, f"{path}.{key}", text, hint)
        elif place is not None:
            taken[place] = sink.name


def _place(context: Context, sink: Sink, local: Callable[[str], str]) -> tuple[str, ...] | None:
    """Return the place; None where several may write. `local` gives the one form of a path of this machine."""
    if sink.path:
        return ("path", _path(context.known(sink.path), local))
    if sink_kind(sink.format).is_shared:
        return None
    if sink.table:
        return ("table", context.known(sink.url or ""), context.known(sink.table).lower())
    return (sink.format, *(f"{key}={value}" for key, value in sorted(sink.more.items()))) if sink.more else None


def _path(path: str, local: Callable[[str], str]) -> str:
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    named = _SCHEME.fullmatch(path)
    if named is None:
        return local(path)
    return f"{named[1].lower()}://{named[2].lower()}{posixpath.normpath(named[3] or '/')}"
