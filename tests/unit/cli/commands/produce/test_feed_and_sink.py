"""Input in pieces and output from a thread: nothing is lost, nothing is read too far ahead."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.cli.commands.produce import feed
from pytubemq.cli.output.sink import Sink
from pytubemq.model.ids import Partition
from pytubemq.model.message import Message


async def read_lines(data: bytes, *, max_line_bytes: int = 1000) -> list[bytes]:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        return [line async for batch in feed.lines(file.fileno(), max_line_bytes=max_line_bytes) for line in batch]


@given(lines=st.lists(st.binary(max_size=40).map(lambda line: line.translate(None, b"\n\r"))), ended=st.booleans())
def test_lines_come_out_as_they_went_in(lines: list[bytes], ended: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    assert asyncio.run(read_lines(data)) == expected


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_line_ends_of_windows_are_line_ends(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(feed, "PIECE_BYTES", piece)
    assert asyncio.run(read_lines(b"a\r\n\r\nb\rc\nd\r\r\ne\r")) == [b"a", b"", b"b\rc", b"d\r", b"e\r"]


def test_lines_longer_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "PIECE_BYTES", 7)
    data = b"x" * 500 + b"\n" + b"y" * 3
    assert asyncio.run(read_lines(data)) == [b"x" * 500, b"yyy"]
    with pytest.raises(ValueError, match="longer than 100 bytes"):
        asyncio.run(read_lines(data, max_line_bytes=100))


def test_reading_ahead_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "PIECE_BYTES", 10)

    async def main() -> int:
        with tempfile.TemporaryFile() as file:
            file.write(bytes(10_000))
            file.seek(0)
            source = feed.pieces(file.fileno())
            await anext(source)
            for _ in range(100):
                await asyncio.sleep(0)
            ahead = os.lseek(file.fileno(), 0, os.SEEK_CUR)
            rest = 10 + sum([len(piece) async for piece in source])
            assert rest == 10_000
            return ahead

    assert asyncio.run(main()) <= 10 * (feed.PIECES_AHEAD + 1)


def message(number: int) -> Message:
    return Message(Partition(1, "t", 0), b"%d" % number, offset=28 * number)


def test_a_slow_reader_holds_back_the_writer_and_not_the_loop() -> None:
    reading, writing = os.pipe()

    async def main() -> bytes:
        sink = Sink(output=None, form="%v{hex}\\n", descriptor=writing)
        await sink.open()
        big = Message(Partition(1, "t", 0), bytes(200_000))
        put = asyncio.ensure_future(sink.put([big]))
        for _ in range(50):  # the loop turns while the pipe is full
            await asyncio.sleep(0)
        assert not put.done()
        taken: list[bytes] = []

        def take() -> None:
            while sum(map(len, taken)) < 400_001:
                taken.append(os.read(reading, 65_536))

        thread = threading.Thread(target=take)
        thread.start()
        await put
        await asyncio.to_thread(thread.join)
        return b"".join(taken)

    try:
        assert asyncio.run(main()) == b"00" * 200_000 + b"\n"
    finally:
        os.close(reading)
        os.close(writing)


def test_nobody_reads_any_more() -> None:
    reading, writing = os.pipe()
    os.close(reading)

    async def main() -> None:
        sink = Sink(output="jsonl", form=None, descriptor=writing)
        await sink.open()
        with pytest.raises(BrokenPipeError):
            await sink.put([message(1)])

    try:
        asyncio.run(main())
    finally:
        os.close(writing)


HOSTILE = b"a\x1b[2J\tb\nc\r\xc2\x9b\xff \xe2\x80\xae \xc3\xa9"
ESCAPED = "a\\x1b[2J\tb\nc\\r\\x9b\\xff \\u202e \u00e9"


@pytest.mark.parametrize("output", [None, "table", "json", "jsonl", "csv", "name"])
@pytest.mark.parametrize("form", [None, "raw", "json", "%v %m %a{k} %a %v{json}\\n"])
def test_a_terminal_obeys_nothing_that_a_message_says(output: str | None, form: str | None) -> None:
    shown = _shown(output, form, terminal=True)
    assert all(line.replace("\t", "").isprintable() for line in shown.decode().replace("\r\n", "\n").split("\n"))


def test_a_terminal_shows_what_it_does_not_obey_and_a_pipe_gets_the_bytes() -> None:
    assert _shown(None, "raw", terminal=True).decode().replace("\r\n", "\n") == ESCAPED
    assert _shown(None, "raw", terminal=False) == HOSTILE
    assert _shown(None, None, terminal=False) == HOSTILE + b"\n"


def _shown(output: str | None, form: str | None, *, terminal: bool) -> bytes:
    """Write one hostile message and return the bytes that arrive."""
    reading, writing = os.pipe()
    attributes = {"k": "v\x1b[2J\x9b"}
    message = Message(Partition(1, "demo", 0), HOSTILE, attributes, offset=0, msg_type="t\x1b[2J")

    async def write() -> None:
        sink = Sink(output=output, form=form, descriptor=writing)
        await sink.open()
        await sink.put([message])
        await sink.close()

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "isatty", lambda descriptor: terminal and descriptor == writing)
            asyncio.run(write())
        return os.read(reading, 65536)
    finally:
        os.close(writing)
        os.close(reading)
