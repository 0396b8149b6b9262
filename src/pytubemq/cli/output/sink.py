"""The output of consumed messages: standard output, in the requested form.

The invariants: a batch is wholly written before it is confirmed; a slow reader of our output delays
fetching, never heartbeats; Ctrl-C works even then.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import os
import queue
import sys
import threading
from typing import TYPE_CHECKING

from pytubemq.cli.output.formats import COLUMNS, Render, plainly, renderer, to_dict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.model.message import Message

DEFAULT_FORMAT = "%v\\n"
BODY_CELL_CHARS = 80


class Sink:
    """Renders messages and writes them from a thread of its own."""

    def __init__(self, *, output: str | None, form: str | None, descriptor: int | None = None) -> None:
        """`form` (`-f`) wins over `output` (`-o`).

        Raises:
            ConfigError: `form` holds an unknown field.
        """
        self.written = 0
        self._array = form is None and output == "json"
        self._descriptor = sys.stdout.fileno() if descriptor is None else descriptor
        self._head, self._render = _choose(output, form, plain=os.isatty(self._descriptor))
        self._jobs: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def open(self) -> None:
        """Write the header before the first message."""
        self._thread = threading.Thread(target=self._work, name="pytubemq-output", daemon=True)
        self._thread.start()
        await self._write(self._head)

    async def put(self, messages: Iterable[Message]) -> None:
        """Write messages; they have left this process when this returns.

        Raises:
            BrokenPipeError: nobody reads any more.
        """
        rendered = [self._render(message) for message in messages]
        if self._array:
            rendered = [
                (b",\n" if self.written + index else b"") + item.rstrip(b"\n") for index, item in enumerate(rendered)
            ]
        self.written += len(rendered)
        await self._write(b"".join(rendered))

    async def close(self, *, within_s: float | None = None) -> None:
        """Write the end after the last message, or give up after a time; nothing if it was not opened."""
        if self._array and self._thread is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._write(b"\n]\n" if self.written else b"]\n")

    async def _write(self, data: bytes) -> None:
        if data:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._jobs.put((data, done))
            await done

    def _work(self) -> None:
        while True:
            data, done = self._jobs.get()
            error: OSError | None = None
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._descriptor, view) :]
            except OSError as failure:
                error = failure
            try:
                done.get_loop().call_soon_threadsafe(_settle, done, error)
            except RuntimeError:  # the loop has ended meanwhile
                return


def _settle(done: asyncio.Future[None], error: OSError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


def _choose(output: str | None, form: str | None, *, plain: bool) -> tuple[bytes, Render]:
    """Return the header, and the function that prints a message; `plain` where a terminal shows it."""
    if form is not None:
        return b"", renderer(form, plain=plain)
    if output == "json":
        return b"[", renderer("json", plain=plain)
    if output == "jsonl":
        return b"", renderer("json", plain=plain)
    if output == "csv":
        return _csv_line(COLUMNS), plainly(_csv_row) if plain else _csv_row
    if output == "name":
        return b"", renderer("%b:%t:%p:%o\\n", plain=plain)
    if output == "table":
        head = f"{'PARTITION':>9}  {'OFFSET':>12}  {'ARRIVED':24}  {'TYPE':10}  BODY\n"
        return head.encode(), plainly(_table_row) if plain else _table_row
    return b"", renderer(DEFAULT_FORMAT, plain=plain)


def _csv_row(message: Message) -> bytes:
    found = to_dict(message)
    found["attributes"] = json.dumps(found["attributes"], ensure_ascii=False)
    return _csv_line([found.get(column) for column in COLUMNS])


def _csv_line(values: Iterable[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(["" if value is None else value for value in values])
    return text.getvalue().encode()


def _table_row(message: Message) -> bytes:
    found = to_dict(message)
    body = json.dumps(message.body.decode("utf-8", "replace"), ensure_ascii=False)[1:-1]
    if len(body) > BODY_CELL_CHARS:
        body = body[: BODY_CELL_CHARS - 1] + "…"
    offset = "-" if message.offset is None else message.offset
    return (
        f"{message.partition.partition_id:>9}  {offset:>12}  {found['appended_at'] or '-':24}  "
        f"{message.msg_type or '-':10}  {body}\n"
    ).encode()
