"""Log set-up of a server process: one line an event on standard error.

The invariants: libraries of ours never call this, only a process that is ours does, once; whatever a peer puts into a
name or a text, an event stays one line (a traceback continues in indented lines), and no terminal or program obeys
anything in it.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TextIO

from pytubemq.model.names import escaped, escaped_json
from pytubemq.observe.trace_events import configure_tracing

_TRACE_INDENT = "    "


def configure(*, level: str, form: str, stream: TextIO | None = None, name: str = "", story: str = "") -> None:
    """Send this process's log to `stream` (standard error), `form` being `text` or `json`.

    Args:
        level: the least level shown.
        form: `text` or `json`.
            stream: the destination; None is standard error.
            name: a part of each line, for several processes with a common log.
            story: the topics and groups to trace, see `trace_events.configure_tracing`.

    Raises:
        ConfigError: `story` is malformed.
    """
    configure_tracing(story)
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(name) if form == "json" else TextFormatter(name))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Foreign libraries only speak up when something is wrong.
    for name in ("asyncio", "uvicorn", "starlette"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


def escape_last_resort() -> None:
    """Escape what `logging` writes to standard error in a process without a configured log, such as a CLI command."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(EscapingFormatter())


class EscapingFormatter(logging.Formatter):
    """A formatter of plain text: one line for each event, with an indented traceback below."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line, with everything escaped that is not plain text."""
        return escaped(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the lines of a traceback below it, none of which looks like an event."""
        first, *rest = super().format(record).split("\n")
        return "\n".join([first, *(_TRACE_INDENT + escaped(line) for line in rest)])


class TextFormatter(EscapingFormatter):
    """`2026-01-31T12:00:00.123Z INFO  pytubemq.broker  text`, with the process's name, if it has one, before INFO."""

    def __init__(self, name: str = "") -> None:
        who = f"{name.replace('%', '%%')} " if name else ""
        super().__init__(f"%(asctime)s.%(msecs)03dZ {who}%(levelname)-7s %(name)s  %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime


class JsonFormatter(logging.Formatter):
    """One object a line: time, process (if it has a name), level, logger, message, a trace event's fields, an error."""

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self._process = {"process": name} if name else {}

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for a record."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, object] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            **self._process,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        story = getattr(record, "story", None)
        if story is not None:
            entry["story"] = story
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        # JSON does not escape all that a terminal obeys: C1 codes, bidirectional marks, line separators.
        return escaped_json(json.dumps(entry, ensure_ascii=False, default=str))
