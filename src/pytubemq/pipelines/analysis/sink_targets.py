"""The place where a sink writes, as a value by which two sinks are told to write to one place.

The rule: topics may be shared, all else may not. Two texts of one place that no look at the file system tells apart
(`./tables/t`, `tables//t`) are one.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from pytubemq.pipelines.file.sink_table import sink_kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.pipelines.file.model import Sink

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)


def target_of(
    sink: Sink,
    *,
    text_of: Callable[[str], str] = str,
    local: Callable[[str], str] = posixpath.normpath,
) -> tuple[str, ...] | None:
    """The place; None where several may write.

    Args:
        sink: or the dead letters, as one.
        text_of: gives a text without its references.
        local: gives the one form of a path of this machine.
    """
    if sink.path:
        return ("path", _path(text_of(sink.path), local))
    if sink_kind(sink.format).is_shared:
        return None
    if sink.table:
        return ("table", text_of(sink.url or ""), text_of(sink.table).lower())
    return (sink.format, *(f"{key}={value}" for key, value in sorted(sink.more.items()))) if sink.more else None


def _path(path: str, local: Callable[[str], str]) -> str:
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    named = _SCHEME.fullmatch(path)
    if named is None:
        return local(path)
    return f"{named[1].lower()}://{named[2].lower()}{posixpath.normpath(named[3] or '/')}"
