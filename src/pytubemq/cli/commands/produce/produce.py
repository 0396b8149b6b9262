"""`pytubemq produce`: lines, files or JSON into a topic."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytubemq.cli.commands.produce.feed import lines, pieces
from pytubemq.cli.names import filter_item, master_option, topic_name
from pytubemq.cli.options import GlobalOptions, current, global_options
from pytubemq.cli.output.formats import Outgoing, parse_json_line
from pytubemq.cli.output.output import emit_object
from pytubemq.cli.output.waiting import asking
from pytubemq.cli.output.words import count_of
from pytubemq.cli.target import masters, shown_masters
from pytubemq.errors import BufferFullError, MessageError, UnavailableError
from pytubemq.model.limits import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    import asyncio

    from pytubemq.client.producer.producer import Producer
    from pytubemq.client.tube import Tube
    from pytubemq.model.message import Receipt

MAX_LINE_BYTES = 2 * MAX_MESSAGE_BYTES
"""The size of a message in base64 with its JSON."""


@click.command(epilog="""\b
Examples:
  seq 1000 | pytubemq produce demo                  a message a line
  pytubemq produce demo hello world                 two messages
  pytubemq produce demo -f photo.jpg --input raw    a file as one message
  pytubemq consume demo -f json | pytubemq produce other --input json
""")  # fmt: skip
@click.argument("topic", callback=topic_name)
@click.argument("messages", nargs=-1)
@click.option("-f", "--file", "files", multiple=True, metavar="FILE",
              type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True, path_type=Path),
              help="Read from a file, - for standard input; may be repeated.")  # fmt: skip
@click.option("--input", "form", type=click.Choice(["lines", "json", "raw"]), default="lines", show_default=True,
              help="A message a line, a JSON object a line, or all of a file as one message.")  # fmt: skip
@click.option("-a", "--attr", "attributes", multiple=True, metavar="K=V",
              help="An attribute for every message; may be repeated.")  # fmt: skip
@click.option("--type", "msg_type", callback=filter_item, metavar="ITEM",
              help="The filter item by which consumers may choose.")  # fmt: skip
@click.option("--key", help="Messages with the same key go to the same partition.")
@master_option
@global_options
def produce(
    topic: str,
    messages: tuple[str, ...],
    files: tuple[Path, ...],
    form: str,
    attributes: tuple[str, ...],
    msg_type: str | None,
    key: str | None,
    master: str | None,
) -> None:
    """Send to TOPIC: the MESSAGES given, else files, else standard input.

    Ends when every message is acknowledged. Empty lines are skipped: a message has at least one byte.
    """
    from pytubemq.server.run import run_loop

    options = current()
    defaults = Outgoing(b"", _attributes(attributes), msg_type, None, key)
    if messages and files:
        raise click.UsageError("give messages or files, not both")
    if not all(messages):
        raise click.UsageError("one of the messages given is empty: a message has at least one byte")
    source = _given(messages) if messages else _read(files or (Path("-"),), form)
    results = Results()
    try:
        skipped = run_loop(_produce(options, masters(options, master), topic, source, defaults, results))
    except (Exception, KeyboardInterrupt) as error:
        if results.began:
            error.add_note(f"sent {results.sent:,} to {topic} before that")
        raise
    if skipped:
        options.say(f"{count_of(skipped, 'empty line')} skipped")
    if options.output:
        emit_object(options, {"topic": topic, "sent": results.sent, "skipped": skipped}, name="topic")
    else:
        options.say(f"sent {results.sent:,} to {topic}")


Source = AsyncIterator[list[Outgoing]]


async def _produce(
    options: GlobalOptions, master: str, topic: str, source: Source, defaults: Outgoing, results: Results
) -> int:
    """Send everything; return how many empty lines were skipped."""
    import pytubemq
    from pytubemq.cli.commands.produce.stall import Stall

    skipped = 0
    async with contextlib.AsyncExitStack() as stack:
        tube = await stack.enter_async_context(pytubemq.connect(master, request_timeout_s=options.timeout_s))
        async with asking(options, shown_masters(master), topic):
            try:
                producer = await stack.enter_async_context(tube.producer(topic))
            except UnavailableError:
                await check_some_answer(options, tube, topic)
                raise
        await stack.enter_async_context(Stall(options, producer, tube.events()).watching())
        results.began = True
        async for batch in source:
            for message in batch:
                if not message.body:
                    skipped += 1
                    continue
                await _submit(producer, message, defaults, results)
            results.check()
        await producer.flush()
    results.check()
    return skipped


async def check_some_answer(options: GlobalOptions, tube: Tube, topic: str) -> None:
    """Raise an error if nothing is accepted because no Broker is there.

    Raises:
        UnreachableError: no Broker responds; it names them.
    """
    from pytubemq.cli.commands.consume.brokers import SILENT_S, none_answers, silent_brokers

    silent, brokers = await silent_brokers(tube, topic, within_s=min(SILENT_S, options.timeout_s))
    if silent and len(silent) == brokers:
        raise none_answers(topic, silent) from None


class Results:
    """Counts receipts and keeps the first error."""

    def __init__(self) -> None:
        self.began = False
        self.sent = 0
        self.error: BaseException | None = None

    def record(self, future: asyncio.Future[Receipt]) -> None:
        """Record the receipt of a message, or its error."""
        error = None if future.cancelled() else future.exception()
        if error is None:
            self.sent += 1
        else:
            self.error = self.error or error

    def check(self) -> None:
        """Raise the first error, if there was one."""
        if self.error is not None:
            raise self.error


async def _submit(producer: Producer, message: Outgoing, defaults: Outgoing, results: Results) -> None:
    while True:
        try:
            future = producer.submit(
                message.body,
                attrs={**defaults.attributes, **message.attributes} or None,
                msg_type=message.msg_type or defaults.msg_type,
                msg_time=message.msg_time,
                key=message.key or defaults.key,
            )
        except BufferFullError:
            await producer.room()
            continue
        future.add_done_callback(results.record)
        return


async def _given(messages: tuple[str, ...]) -> Source:
    yield [_plain(os.fsencode(message)) for message in messages]


async def _read(files: tuple[Path, ...], form: str) -> Source:
    for path in files:
        descriptor = sys.stdin.fileno() if str(path) == "-" else os.open(path, os.O_RDONLY)
        try:
            async for batch in _messages(descriptor, form, source="" if str(path) == "-" else f"{path}, "):
                yield batch
        except OSError as error:
            error.filename = error.filename or str(path)
            raise
        except ValueError as error:
            raise MessageError(f"{path}: {error}", hint="use --input raw for a file as one message") from error
        finally:
            if str(path) != "-":
                os.close(descriptor)


async def _messages(descriptor: int, form: str, *, source: str) -> Source:
    if form == "raw":
        whole = bytearray()
        async for piece in pieces(descriptor):
            whole += piece
            if len(whole) > MAX_MESSAGE_BYTES:
                raise MessageError(
                    f"the input is longer than any message may be ({MAX_MESSAGE_BYTES:,} bytes)",
                    hint="send it in parts",
                    code=445,
                )
        yield [_plain(bytes(whole))]
        return
    number = 0
    async for batch in lines(descriptor, max_line_bytes=MAX_LINE_BYTES):
        if form == "lines":
            yield [_plain(line) for line in batch]
            continue
        found = []
        for line in batch:
            number += 1
            found.append(parse_json_line(line, number=number, source=source) if line.strip() else _plain(b""))
        yield found


def _plain(body: bytes) -> Outgoing:
    return Outgoing(body, {}, None, None, None)


def _attributes(items: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{item!r} is not of the form K=V", param_hint="--attr")
        found[name] = value
    return found
