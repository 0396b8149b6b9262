"""Log set-up of a server process: one line an event on standard error.

The invariant: libraries of ours never call this; only a process that is ours does, once.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TextIO


def configure(*, level: str, form: str, stream: TextIO | None = None) -> None:
    """Send this process's log to `stream` (standard error), `form` being `text` or `json`."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Foreign libraries only speak up when something is wrong.
    for name in ("asyncio", "uvicorn", "starlette"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO  pytubemq.broker  text`"""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s  %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, logger, message, and error when there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """As `logging` asks for it."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
