"""Settings of the log."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from pytubemq.observe.trace_events import TraceFilter


class LogSection(Struct, frozen=True, kw_only=True):
    """`[log]`: the log on standard error."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Meta(description="the least level shown")] = "info"
    format: Annotated[Literal["text", "json"], Meta(description="one line of text, or one JSON object a line")] = "text"
    story: Annotated[
        str,
        Meta(
            max_length=1024,
            description="topics and groups to trace at level debug, as in `topic:orders,group:g1`, or `all`; "
            "empty: all of them where `level` is debug, else none",
        ),
    ] = ""

    def check(self) -> None:
        """Refuse a malformed `story`. Raises ConfigError."""
        if self.story:
            TraceFilter.parse(self.story)
