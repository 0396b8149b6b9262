"""`pytubemq bench`: measurements with a real client on a running cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from pytubemq.cli.command_group import CommandGroup
from pytubemq.cli.names import master_option, topic_name
from pytubemq.cli.options import GlobalOptions, current, global_options, http_option
from pytubemq.cli.output.output import emit_object
from pytubemq.cli.output.words import count_of
from pytubemq.cli.target import masters, open_api
from pytubemq.errors import ConfigError, NotFoundError

TOPIC = "bench"
F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=CommandGroup)
def bench() -> None:
    """Measure producing, consuming and end-to-end latency."""


def load_options(*, messages: int, window: int) -> Callable[[F], F]:
    """Decorator: the options of all three measurements."""

    def decorate(command: F) -> F:
        for option in (
            global_options,
            http_option,
            master_option,
            click.option("--window", type=click.IntRange(1, 100_000), default=window, show_default=True,
                         help="Messages in flight at a time, per producer."),
            click.option("--partitions", type=click.IntRange(1, 1_000), default=4, show_default=True,
                         help="Partitions of the topic, if it has to be created."),
            click.option("--messages", type=click.IntRange(1), default=messages, show_default=True,
                         help="Number of messages."),
            click.option("--size", "size_bytes", type=click.IntRange(8, 20 * 2**20), default=1024, show_default=True,
                         metavar="BYTES", help="Size of each body."),
            click.option("--topic", callback=topic_name, default=TOPIC, show_default=True,
                         help="Created over the JSON API if missing."),
        ):  # fmt: skip
            command = option(command)
        return command

    return decorate


@bench.command("produce")
@click.option("--producers", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Number of producers, each with its own connection.")  # fmt: skip
@click.option("--sync", is_flag=True, help="Wait for each message before the next; measures latency.")
@click.option("--api", type=click.Choice(["one", "many"]), default="one", show_default=True,
              help="submit() each message, or a quarter of the window at a time with submit_many().")  # fmt: skip
@click.option("--no-batching", is_flag=True, help="Send each message in its own request, as the Java client does.")
@load_options(messages=300_000, window=20_000)
def bench_produce(producers: int, sync: bool, api: str, no_batching: bool, **common: Any) -> None:
    """Measure acknowledged messages per second."""
    from pytubemq.cli.commands import bench_run

    if api == "many" and (sync or no_batching):
        raise ConfigError("--api many sends many messages at a time", hint="leave out --sync and --no-batching")
    way = bench_run.Way(sync=sync, many=api == "many", batching=not no_batching)
    _run(functools.partial(bench_run.produce, producers=producers, way=way), **common)


@bench.command("consume")
@click.option("--fill", is_flag=True, help=f"Create or fill a topic other than `{TOPIC}` too; the messages stay there.")
@load_options(messages=300_000, window=20_000)
def bench_consume(fill: bool, **common: Any) -> None:
    """Measure messages read and confirmed per second by a new group; first fill the topic `bench` if it has too few."""
    from pytubemq.cli.commands import bench_run

    may_fill = fill or common["topic"] == TOPIC
    _run(functools.partial(bench_run.consume, may_fill=may_fill, say=current().say), may_make=may_fill, **common)


@bench.command("e2e")
@load_options(messages=2_000, window=1)
def bench_e2e(**common: Any) -> None:
    """Measure the time from `send` to a consumer; with --window 1 nothing waits in a queue."""
    from pytubemq.cli.commands import bench_run

    _run(bench_run.end_to_end, **common)


def _run(
    measure: Callable[..., Any],
    *,
    master: str | None,
    http: str | None,
    partitions: int,
    may_make: bool = True,
    **load: Any,
) -> None:
    from pytubemq.cli.commands.bench_run import Load
    from pytubemq.server.run import run_loop

    options = current()
    what = Load(master=masters(options, master), timeout_s=options.timeout_s, **load)
    try:
        found = run_loop(measure(what))
    except NotFoundError as error:
        if not may_make:
            error.hint = "check the name, or create and fill the topic with --fill"
            raise
        _make_topic(options, http, what.topic, partitions)
        found = run_loop(measure(what))
    if options.output is None:
        options.output = "jsonl"
    emit_object(options, found, name="bench")


def _make_topic(options: GlobalOptions, http: str | None, topic: str, partitions: int) -> None:
    api = open_api(options, http)
    options.say(f"there is no topic {topic}: it is created with {count_of(partitions, 'partition')}, and stays")
    api.post("topics", body={"name": topic, "partitions": partitions})
