"""`pytubemq consume`: a topic's messages on standard output."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from pytubemq.cli.commands.consume.brokers import CANNOT_BE_READ, SILENT_S, BrokerRound, none_answers, silent_brokers
from pytubemq.cli.commands.consume.outages import TAIL_PERIOD_S, Outages
from pytubemq.cli.commands.consume.unread import Unread
from pytubemq.cli.commands.consume.why_nothing import Why
from pytubemq.cli.names import filter_items, group_name, master_option, topic_name
from pytubemq.cli.options import GlobalOptions, current, global_options
from pytubemq.cli.output.farewell import WITHIN_S
from pytubemq.cli.output.formats import FIELDS
from pytubemq.cli.output.sink import Sink
from pytubemq.cli.output.waiting import asking
from pytubemq.cli.output.words import count_of
from pytubemq.cli.target import http_url, masters, same_cluster, shown_masters
from pytubemq.errors import (
    Code,
    ConfigError,
    CorruptError,
    NotAllowedError,
    NotFoundError,
    StaleBatchError,
    TransportError,
    TubeError,
    UnavailableError,
)
from pytubemq.model.limits import DEFAULT_READER_RETRY_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from pytubemq.client.received.batch import Batch
    from pytubemq.client.start_position import Start
    from pytubemq.client.tube import Tube
    from pytubemq.model.ids import Partition
    from pytubemq.model.message import Message

BATCH_MESSAGES = 500
READ_MESSAGES = 5_000
GONE_PERIOD_S = 2.0
"""The time between two checks by a member without a partition that its topic still exists, in seconds."""
FIRST_TRY_S = 1.0
"""The time after which a partition that its Broker cannot serve is postponed: other partitions come first."""


@click.command(epilog=f"""\b
Fields of -f:
{FIELDS}

\b
Examples:
  pytubemq consume demo                             all messages, then end
  pytubemq consume demo --tail -f '%p %o %v\\n'      new messages only
  pytubemq consume demo --group g1 -n 10            ten messages as a member of a group, confirmed
""")  # fmt: skip
@click.argument("topic", callback=topic_name)
@click.option(
    "--group", callback=group_name, metavar="NAME", help="Read as a member of a group; confirms what was printed."
)
@click.option("-n", "--count", type=click.IntRange(min=1), metavar="N", help="End after N messages.")
@click.option("--from", "start", type=click.Choice(["earliest", "latest"]),
              help="Where to begin [earliest; latest with --tail and without --group]. "
              "A group continues at its committed offset.")  # fmt: skip
@click.option("--tail", is_flag=True, help="Wait for new messages, until Ctrl-C (a group always does).")
@click.option("--idle", "idle_s", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
              help="End after this many seconds without a message.")  # fmt: skip
@click.option("--type", "types", multiple=True, callback=filter_items, metavar="ITEM",
              help="Only messages of this type; may be repeated.")  # fmt: skip
@click.option("-f", "--format", "form", metavar="FORMAT", help=r"How a message is printed: json, raw or a text "
              r"['%v\n']; for one message per line, end the text with \n.")  # fmt: skip
@master_option
@global_options
def consume(
    topic: str,
    group: str | None,
    count: int | None,
    start: str | None,
    tail: bool,
    idle_s: float | None,
    types: tuple[str, ...],
    form: str | None,
    master: str | None,
) -> None:
    """Print TOPIC's messages, without a group or as a member of --group."""
    from pytubemq.server.run import run_loop

    options = current()
    try:
        sink = Sink(output=options.output, form=form)
    except ConfigError as error:
        raise click.UsageError(error.message) from error
    earliest = (start or ("latest" if tail and not group else "earliest")) == "earliest"
    if not earliest and not tail and group is None:
        options.say("nothing to print: --from latest begins behind the last message, and only --tail waits for more")
    wanted = Wanted(sink, count, frozenset(types))
    http = None if master else http_url(options, None)
    why = Why(options, group, topic, http, where=same_cluster(options, master)) if group else None
    run_loop(_consume(options, masters(options, master), topic, why, wanted, earliest, tail, idle_s))
    options.note(count_of(sink.written, "message"))


class Wanted:
    """The messages to print, and how many are left to print."""

    def __init__(self, sink: Sink, count: int | None, types: frozenset[str]) -> None:
        self.sink = sink
        self.types = types
        self.left = count

    @property
    def is_complete(self) -> bool:
        """True if there are enough."""
        return self.left == 0

    async def put(self, messages: Sequence[Message]) -> bool:
        """Write the messages that are wanted; return False when some were beyond the number."""
        chosen = [message for message in messages if not self.types or message.msg_type in self.types]
        if self.left is None:
            await self.sink.put(chosen)
            return True
        taken = chosen[: self.left]
        self.left -= len(taken)
        await self.sink.put(taken)
        return len(taken) == len(chosen)


@dataclass(frozen=True, slots=True)
class Span:
    """The range of each partition to read, and the time limits."""

    begin: int | Start
    follow: bool
    idle_s: float | None
    retry_for_s: float = DEFAULT_READER_RETRY_S
    """The time for which a Broker that cannot serve the partition is retried."""


async def _consume(
    options: GlobalOptions,
    master: str,
    topic: str,
    why: Why | None,
    wanted: Wanted,
    earliest: bool,
    follow: bool,
    idle_s: float | None,
) -> None:
    import pytubemq

    async with pytubemq.connect(master, request_timeout_s=options.timeout_s) as tube:
        try:
            if why is None:
                async with asking(options, shown_masters(master), topic):
                    partitions = await tube.partitions(topic)
                await _read(options, tube, master, partitions, wanted, earliest=earliest, follow=follow, idle_s=idle_s)
            else:
                waiting = asking(options, shown_masters(master), topic)
                await _in_group(options, tube, master, topic, why, wanted, waiting, earliest=earliest, idle_s=idle_s)
        except asyncio.CancelledError:  # Ctrl-C, perhaps because nobody reads the output
            await wanted.sink.close(within_s=WITHIN_S)
            raise
        except BaseException:
            await wanted.sink.close()
            raise
        await wanted.sink.close()


async def _in_group(
    options: GlobalOptions,
    tube: Tube,
    master: str,
    topic: str,
    why: Why,
    wanted: Wanted,
    waiting: AbstractAsyncContextManager[None],
    *,
    earliest: bool,
    idle_s: float | None,
) -> None:
    from pytubemq.client.start_position import Start

    # A batch is confirmed as a whole: small ones for a small number make the end exact.
    size = BATCH_MESSAGES if wanted.left is None else min(BATCH_MESSAGES, max(1, wanted.left // 100))
    start = Start.EARLIEST if earliest else Start.LATEST
    async with contextlib.AsyncExitStack() as stack:
        async with waiting:
            consumer = await stack.enter_async_context(
                tube.consumer(why.group, topic, start=start, filters=sorted(wanted.types) or None)
            )
        outages = Outages(options, tube, shown_masters(master), topic)
        await stack.enter_async_context(outages.watching())
        watching = why.watching(
            lambda: bool(consumer.assignment) or bool(wanted.sink.written),
            lambda: _silent(options, tube, topic),
            outages.master_answers,
        )
        await stack.enter_async_context(watching)
        deletion = asyncio.create_task(_say_deleted(options, tube, topic, lambda: bool(consumer.assignment)))
        stack.callback(deletion.cancel)
        await wanted.sink.open()
        unconfirmed = Unconfirmed(options)
        async for batch in consumer.batches(max_messages=size, idle_timeout_s=idle_s):
            if not await wanted.put(batch.messages):
                options.say(f"the last batch of {batch.partition} was not printed to its end: its messages come again")
                return
            await unconfirmed.confirm(batch)
            if wanted.is_complete:
                unconfirmed.raise_last()
                return
        unconfirmed.raise_last()
        await _say_silent(options, tube, topic, nothing_came=not wanted.sink.written)
        if not consumer.assignment:
            await _check_exists(options, tube, topic)
            await why.check(nothing_came=not wanted.sink.written)


class Unconfirmed:
    """Partitions whose last batch was printed and could not be confirmed; other partitions are read all the same."""

    def __init__(self, options: GlobalOptions) -> None:
        self._options = options
        self._errors: dict[Partition, TubeError] = {}

    async def confirm(self, batch: Batch) -> None:
        """Confirm a batch, or report that it cannot be confirmed."""
        try:
            await batch.confirm()
        except StaleBatchError as error:  # its partition was revoked, or its group moved
            self._say(batch, error)
        except TubeError as error:  # its Broker is full, or away for very long; the batch comes again
            self._say(batch, error)
            self._errors[batch.partition] = error
        else:
            self._errors.pop(batch.partition, None)

    def raise_last(self) -> None:
        """Raise the last error of a partition whose newest batch is not confirmed."""
        for error in reversed(self._errors.values()):
            raise error

    def _say(self, batch: Batch, error: TubeError) -> None:
        self._options.say(f"messages of {batch.partition} may come again: {error.message}")


async def _say_deleted(options: GlobalOptions, tube: Tube, topic: str, holds: Callable[[], bool]) -> None:
    """Report each time that the topic of a waiting member was deleted; it may come back, so waiting continues."""
    said = False
    while True:
        await asyncio.sleep(GONE_PERIOD_S)
        if holds():
            said = False
        elif not said:
            try:
                await _check_exists(options, tube, topic)
            except NotFoundError as error:
                options.say(f"{error.message}; waiting in case it is created again (Ctrl-C ends)")
                said = True


async def _check_exists(options: GlobalOptions, tube: Tube, topic: str) -> None:
    """Raise NotFoundError if the Master reports that the topic is gone; pass if that cannot be determined."""
    try:
        async with asyncio.timeout(options.timeout_s):
            await tube.partitions(topic)
    except NotFoundError as error:
        raise NotFoundError(
            f"topic {topic} is gone: it was deleted while this member was in the group",
            hint=error.hint,
            code=Code.TOPIC_NOT_DEPLOYED,
        ) from None
    except (TubeError, TimeoutError):
        pass  # its Brokers or the Master are away: that is reported elsewhere


async def _silent(options: GlobalOptions, tube: Tube, topic: str) -> tuple[list[str], int]:
    return await silent_brokers(tube, topic, within_s=min(SILENT_S, options.timeout_s))


async def _say_silent(options: GlobalOptions, tube: Tube, topic: str, *, nothing_came: bool) -> None:
    """Report the Brokers that do not respond, since nothing came for a while.

    Raises:
        UnreachableError: no Broker of the topic responds, and nothing was printed.
    """
    silent, brokers = await _silent(options, tube, topic)
    if silent and len(silent) == brokers and nothing_came:
        raise none_answers(topic, silent)
    for name in silent:
        options.say(f"not read: {name} does not respond")


async def _read(
    options: GlobalOptions,
    tube: Tube,
    master: str,
    partitions: Sequence[Partition],
    wanted: Wanted,
    *,
    earliest: bool,
    follow: bool,
    idle_s: float | None,
) -> None:
    from pytubemq.client.start_position import Start

    await wanted.sink.open()  # not before: with an unknown topic there is nothing to print
    unread = Unread(options)
    span = Span(Start.EARLIEST if earliest else Start.LATEST, follow=follow, idle_s=idle_s)
    async with BrokerRound(options, tube, partitions) as brokers:
        if follow:
            await _follow(options, tube, master, brokers, wanted, unread, span)
        else:
            await _read_all(options, tube, brokers, wanted, unread, span)
    if not wanted.is_complete:
        unread.check()


async def _read_all(
    options: GlobalOptions, tube: Tube, brokers: BrokerRound, wanted: Wanted, unread: Unread, span: Span
) -> None:
    """Read all messages, one partition after the other, those of a Broker once it has responded."""
    hurried = replace(span, retry_for_s=min(FIRST_TRY_S, options.timeout_s))
    while not wanted.is_complete and (found := await brokers.next()) is not None:
        broker_id, error = found
        for partition in brokers.partitions[broker_id]:
            if wanted.is_complete or partition in unread:
                break
            error = error or await _read_one(tube, partition, wanted, unread, hurried)
            if error is not None:
                unread.add(partition, error)
    for partition, begin, stopped in unread.take_stopped():
        if wanted.is_complete:
            return
        options.say(f"waiting for {partition}, up to {options.timeout_s:g} s (--timeout): {stopped.message}")
        patient = replace(span, begin=begin, retry_for_s=options.timeout_s)
        error = await _read_one(tube, partition, wanted, unread, patient)
        if error is not None:
            unread.add(partition, error)


async def _follow(
    options: GlobalOptions,
    tube: Tube,
    master: str,
    brokers: BrokerRound,
    wanted: Wanted,
    unread: Unread,
    span: Span,
) -> None:
    followed: Counter[int] = Counter()  # the partitions of each Broker that are waited for

    async def follow(partition: Partition) -> None:
        error = await brokers.answer(partition.broker_id)
        if error is None:
            followed[partition.broker_id] += 1
            try:
                error = await _read_one(tube, partition, wanted, unread, span)
            finally:
                followed[partition.broker_id] -= 1
        if error is not None and unread.add(partition, error):
            options.say(f"skipped: {error.message}")

    readers = [asyncio.ensure_future(follow(partition)) for of in brokers.partitions.values() for partition in of]
    pending: set[asyncio.Future[None]] = set(readers)
    topic = next((partition.topic for of in brokers.partitions.values() for partition in of), "")
    outages = Outages(
        options,
        tube,
        shown_masters(master),
        topic,
        period_s=TAIL_PERIOD_S,
        is_watched=lambda broker_id: followed[broker_id] > 0,
    )
    try:
        async with outages.watching():
            while pending and not wanted.is_complete:
                finished, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for reader in finished:
                    reader.result()
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


async def _check_deleted(tube: Tube, topic: str) -> None:
    """Raise NotFoundError if the topic was deleted meanwhile, since its Broker then refuses reads."""
    try:
        await tube.partitions(topic)
    except NotFoundError as error:
        raise NotFoundError(f"topic {topic} was deleted", hint=error.hint, code=Code.TOPIC_NOT_DEPLOYED) from None
    except TubeError:
        pass  # the Broker's own refusal says more


async def _read_one(tube: Tube, partition: Partition, wanted: Wanted, unread: Unread, span: Span) -> TubeError | None:
    """Read one partition past lost messages, up to one that its Broker cannot serve.

    Return the error if it cannot be begun, as its Broker is away or one of the original."""
    from pytubemq.client.start_position import Start

    start: int | Start | None = span.begin
    end: int | Start | None = None if span.follow else Start.LATEST
    while start is not None:
        reader = tube.reader(partition, start=start, end=end, retry_for_s=span.retry_for_s)
        async with contextlib.AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(reader)
            except CANNOT_BE_READ as error:
                return error
            start, end = None, reader.end
            try:
                async for batch in reader.batches(max_messages=READ_MESSAGES, idle_timeout_s=span.idle_s):
                    await wanted.put(batch.messages)
                    if wanted.is_complete:
                        break
            except CorruptError as error:
                if reader.behind_loss is None:
                    raise
                unread.lose(error)
                start = reader.behind_loss
            except NotAllowedError:
                await _check_deleted(tube, partition.topic)
                raise
            except (TransportError, UnavailableError) as error:
                unread.stop(partition, reader.position or 0, error, for_good=span.follow)
    return None
