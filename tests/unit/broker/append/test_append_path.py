"""The append path against a store whose every step the test decides."""

from __future__ import annotations

import asyncio
import math
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytubemq.broker.append.append_path import AppendPath
from pytubemq.broker.append.submission import Confirmation
from pytubemq.core.refusal import Refusal
from pytubemq.errors import Code, DiskFailedError, DiskFullError, StorageError
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.anyio


class Store:
    """Remembers what is written; writes wait while `go` is clear, and raise what is in `errors`."""

    def __init__(self) -> None:
        self.unapplied_bytes = 0
        self.writes: list[list[Any]] = []
        self.in_flight = 0
        self.last: Any = None
        self.errors: list[Exception] = []
        self.prepare_errors: list[Exception] = []
        self.abandoned = 0
        self.from_memory = False
        self.early: list[Any] = []
        self.go = threading.Event()
        self.go.set()

    def staging(self) -> Any:
        items: list[Any] = []
        return SimpleNamespace(
            items=items,
            size_bytes=1,
            early=frozenset(),
            append=lambda *message: items.append(message),
            confirm=lambda *position: items.append(position),
        )

    def prepare(self, staging: Any, now_ms: int) -> Any:
        if self.prepare_errors:
            raise self.prepare_errors.pop()
        self.in_flight += 1
        assert self.in_flight <= 2, "one behind the other"
        staging.before, self.last = self.last if self.in_flight == 2 else None, staging
        staging.written, staging.size_bytes = False, 1
        staging.appended = [item for item in staging.items if len(item) == 5]
        staging.messages = len(staging.appended)
        staging.runs = [SimpleNamespace(topic=topic, partition_id=number) for topic, number, *_ in staging.appended]
        if self.from_memory:
            staging.early = frozenset(range(staging.messages))
        return staging

    def publish_early(self, prepared: Any) -> None:
        self.early.append(prepared.appended)

    def write(self, prepared: Any) -> None:
        assert self.go.wait(30)
        if prepared.before is not None and not prepared.before.written:
            raise StorageError("the one before was not written")
        if self.errors:
            raise self.errors.pop()
        prepared.written = True
        self.writes.append(prepared.items)

    def publish(self, prepared: Any) -> None:
        self.in_flight -= 1
        prepared.runs.clear()  # as soon as they are in their logs, which may be at once

    def abandon(self, prepared: Any) -> None:
        self.in_flight = 0  # one behind it goes with it
        self.abandoned += 1


class Clock:
    def __init__(self) -> None:
        self.time_s = 0.0

    def now_s(self) -> float:
        return self.time_s

    def wall_ms(self) -> int:
        return 1


class Want:
    """A submission that remembers its end."""

    def __init__(
        self, *payloads: bytes, deadline_s: float = math.inf, confirmation: Confirmation | None = None
    ) -> None:
        self.payloads = payloads
        self.size_bytes = sum(map(len, payloads)) or 1
        self.deadline_s = deadline_s
        self.confirmation = confirmation
        self.confirmations = 0 if confirmation is None else 1
        self.order: Any = None
        self.ends: list[Any] = []

    def stage(self, staging: Any) -> int:
        if self.confirmation is not None:
            staging.confirm(*self.confirmation)
        for payload in self.payloads:
            staging.append("demo", 0, payload, 0, -1)
        return len(self.payloads)

    def complete(self, results: Sequence[Any]) -> None:
        self.ends.append([item[2] for item in results])

    def refuse(self, refusal: Refusal) -> None:
        self.ends.append(refusal.code)

    def expire(self) -> None:
        self.ends.append("expired")


class Fault(Want):
    """One that fails when it is told, or looked at."""

    def complete(self, results: Sequence[Any]) -> None:
        super().complete(results)
        raise ValueError("cannot be told")

    def refuse(self, refusal: Refusal) -> None:
        super().refuse(refusal)
        raise ValueError("cannot be told")

    def expire(self) -> None:
        super().expire()
        raise ValueError("cannot be told")

    def find_refusal(self) -> Refusal:
        raise ValueError("cannot be looked at")


class Bench:
    def __init__(self, **options: Any) -> None:
        self.store, self.clock = Store(), Clock()
        self.published: list[set[Any]] = []
        self.good_writes = 0
        self.path = AppendPath(
            self.store,  # type: ignore[arg-type]
            clock=self.clock,
            on_published=lambda keys: self.published.append(set(keys)),
            on_written=self._written,
            **options,
        )

    def _written(self) -> None:
        self.good_writes += 1

    async def submit(self, *wants: Want) -> None:
        for want in wants:
            self.path.submit(want)
        await until(lambda: all(want.ends for want in wants))


async def test_one_turn_of_the_loop_is_one_write_in_order() -> None:
    bench, wants = (
        Bench(),
        [Want(b"a"), Want(b"b", b"c"), Want(confirmation=Confirmation("g", "demo", 0, 28)), Want(b"d")],
    )
    await bench.submit(*wants)
    assert [want.ends for want in wants] == [[[b"a"]], [[b"b", b"c"]], [[]], [[b"d"]]]
    assert len(bench.store.writes) == 1
    assert bench.published == [{("demo", 0)}]
    assert (bench.path.stats.messages, bench.path.stats.confirmations, bench.path.staged_bytes) == (4, 1, 0)
    await bench.path.close(timeout_s=5)


async def test_one_write_takes_no_more_than_its_bound_and_one_large_request_alone() -> None:
    bench = Bench(max_write_bytes=10)
    await bench.submit(Want(b"x" * 6), Want(b"y" * 4), Want(b"z" * 1), Want(b"w" * 50))
    assert [len(write) for write in bench.store.writes] == [2, 1, 1]
    await bench.path.close(timeout_s=5)


async def test_a_full_disk_fails_its_batch_and_the_next_one_is_tried() -> None:
    bench = Bench()
    bench.store.errors = [DiskFullError("no space")]
    first = Want(b"a")
    await bench.submit(first)
    assert (first.ends, bench.store.abandoned) == ([Code.SERVER_RECEIVE_OVERFLOW], 1)
    refused = bench.path.errors.full
    assert refused is not None
    second = Want(b"b")
    await bench.submit(second)
    assert second.ends == [[b"b"]]
    assert bench.path.errors.full is None
    await bench.path.close(timeout_s=5)


@pytest.mark.parametrize(
    ("error", "code"),
    [(DiskFailedError("broken"), Code.SERVICE_UNAVAILABLE), (ValueError("a bug"), Code.INTERNAL_SERVER_ERROR)],
)
async def test_any_other_failed_write_is_final(error: Exception, code: Code) -> None:
    bench = Bench()
    bench.store.errors = [error]
    bench.store.go.clear()
    first = Want(b"a")
    bench.path.submit(first)
    await until(lambda: bench.store.in_flight)
    second = Want(b"b")
    bench.path.submit(second)
    bench.store.go.set()
    await until(lambda: second.ends)
    third = Want(b"c")
    bench.path.submit(third)
    assert [want.ends for want in (first, second, third)] == [[code]] * 3
    assert bench.path.errors.fatal is error
    assert bench.path.staged_bytes == 0
    await bench.path.close(timeout_s=5)


async def test_what_cannot_be_prepared_fails_alone() -> None:
    bench = Bench()
    bench.store.prepare_errors = [ValueError("a bug")]
    first, second = Want(b"a"), Want(b"b")
    await bench.submit(first)
    await bench.submit(second)
    assert (first.ends, second.ends) == ([Code.INTERNAL_SERVER_ERROR], [[b"b"]])
    assert bench.path.errors.fatal is None
    await bench.path.close(timeout_s=5)


async def test_the_journal_waits_for_its_backlog_and_goes_on_when_it_shrinks() -> None:
    bench = Bench(max_unapplied_bytes=100)
    bench.store.unapplied_bytes = 101
    late, patient = Want(b"late", deadline_s=1.0), Want(b"patient")
    bench.path.submit(late)
    bench.path.submit(patient)
    bench.clock.time_s = 2.0
    await until(lambda: late.ends)
    assert (late.ends, patient.ends, bench.path.stats.expired) == (["expired"], [], 1)
    bench.store.unapplied_bytes = 0
    bench.path.resume()
    await until(lambda: patient.ends)
    assert bench.store.writes == [[("demo", 0, b"patient", 0, -1)]]
    await bench.path.close(timeout_s=5)


async def test_a_backlog_that_cannot_shrink_is_not_waited_for() -> None:
    errors: list[StorageError] = []
    bench = Bench(max_unapplied_bytes=100, backlog_error=lambda: errors[0] if errors else None)
    bench.store.unapplied_bytes = 101
    queued, late = Want(b"a"), Want(b"b")
    bench.path.submit(queued)
    errors.append(DiskFullError("no space for logs"))
    bench.path.resume()
    await until(lambda: queued.ends)
    bench.path.submit(late)
    assert (queued.ends, late.ends) == ([Code.SERVER_RECEIVE_OVERFLOW], [Code.SERVER_RECEIVE_OVERFLOW])
    await bench.path.close(timeout_s=5)


async def test_a_stop_writes_what_waits_and_refuses_what_comes_after() -> None:
    bench = Bench(max_write_bytes=1)
    wants = [Want(b"%d" % n) for n in range(5)]
    for want in wants:
        bench.path.submit(want)
    closing = asyncio.create_task(bench.path.close(timeout_s=30))
    await closing
    assert all(want.ends and isinstance(want.ends[0], list) for want in wants)
    after = Want(b"x")
    bench.path.submit(after)
    assert after.ends == [Code.SERVICE_UNAVAILABLE]


async def test_a_stop_does_not_wait_for_a_disk_that_hangs() -> None:
    bench = Bench(max_write_bytes=1)
    bench.store.go.clear()
    stuck, queued = Want(b"a"), Want(b"b")
    bench.path.submit(stuck)
    bench.path.submit(queued)
    await until(lambda: bench.store.in_flight)
    await bench.path.close(timeout_s=0.01)
    assert (stuck.ends, queued.ends) == ([], [Code.SERVICE_UNAVAILABLE])
    bench.store.go.set()
    await until(lambda: stuck.ends)


class Told(Want):
    """Writes its end into a list that several share."""

    def __init__(self, told: list[Any], *payloads: bytes, **options: Any) -> None:
        super().__init__(*payloads, **options)
        self.ends = told

    def complete(self, appended: Sequence[Any]) -> None:
        self.ends.append(("written", self.payloads[0]))

    def refuse(self, refusal: Refusal) -> None:
        self.ends.append((refusal.code, self.payloads[0]))

    def expire(self) -> None:
        self.ends.append(("expired", self.payloads[0]))


class Broken:
    """The place of a batch behind one that failed."""

    def find_refusal(self) -> Refusal:
        return Refusal(Code.SERVER_RECEIVE_OVERFLOW, "again in order")


@pytest.mark.parametrize("cause", ["stuck", "expired", "out of order", "unprepared"])
async def test_what_is_refused_behind_a_write_is_told_after_what_was_written(cause: str) -> None:
    errors: list[StorageError] = []
    bench = Bench(max_unapplied_bytes=100, backlog_error=lambda: errors[0] if errors else None)
    bench.store.go.clear()
    told: list[Any] = []
    bench.path.submit(Told(told, b"a"))
    await until(lambda: bench.store.in_flight)
    second = Told(told, b"b", deadline_s=1.0)
    if cause == "out of order":
        second.order = Broken()
    bench.path.submit(second)
    bench.path.submit(Told(told, b"c"))
    if cause == "stuck":
        bench.store.unapplied_bytes = 101
        errors.append(DiskFullError("no space for logs"))
    elif cause == "expired":
        bench.clock.time_s = 2.0
    elif cause == "unprepared":
        bench.store.prepare_errors = [ValueError("a bug")] * 3  # together twice, then the first by itself
    bench.store.go.set()
    await until(lambda: len(told) == 3)
    overflow, fault = Code.SERVER_RECEIVE_OVERFLOW, Code.INTERNAL_SERVER_ERROR
    assert (
        told
        == {
            "stuck": [("written", b"a"), (overflow, b"b"), (overflow, b"c")],
            "expired": [("written", b"a"), ("expired", b"b"), ("written", b"c")],
            "out of order": [("written", b"a"), (overflow, b"b"), ("written", b"c")],
            "unprepared": [("written", b"a"), (fault, b"b"), ("written", b"c")],
        }[cause]
    )
    assert bench.path.staged_bytes == 0
    await bench.path.close(timeout_s=5)


async def test_the_next_write_starts_before_the_callers_of_the_last_are_told() -> None:
    bench = Bench()
    bench.store.go.clear()
    in_flight_when_told: list[int] = []

    class Looks(Want):
        def complete(self, appended: Sequence[Any]) -> None:
            super().complete(appended)
            in_flight_when_told.append(bench.store.in_flight)

    first, second = Looks(b"a"), Looks(b"b")
    bench.path.submit(first)
    await until(lambda: bench.store.in_flight)
    bench.path.submit(second)
    bench.store.go.set()
    await until(lambda: second.ends)
    assert in_flight_when_told == [1, 0]
    await bench.path.close(timeout_s=5)


async def test_one_timer_waits_for_the_backlog_however_often_it_moves() -> None:
    bench = Bench(max_unapplied_bytes=100)
    bench.store.unapplied_bytes = 101
    loop = asyncio.get_running_loop()
    turns, call_later = [], loop.call_later

    def counted(delay_s: float, callback: Any, *args: Any) -> asyncio.TimerHandle:
        handle = call_later(delay_s, callback, *args)
        if callback == bench.path._turn:
            turns.append(handle)
        return handle

    bench.path._loop = SimpleNamespace(  # type: ignore[assignment]
        call_later=counted, call_soon=loop.call_soon, run_in_executor=loop.run_in_executor
    )
    want = Want(b"a")
    bench.path.submit(want)
    for _ in range(20):
        bench.path.resume()
        bench.path.resume()
        bench.path.submit(Want(b"b"))
        await asyncio.sleep(0)
    assert len([handle for handle in turns if not handle.cancelled()]) <= 1
    bench.store.unapplied_bytes = 0
    bench.path.resume()
    await until(lambda: want.ends)
    assert all(handle.cancelled() or handle.when() <= loop.time() for handle in turns)
    await bench.path.close(timeout_s=5)


async def test_what_is_promised_from_memory_is_told_while_it_is_being_written() -> None:
    bench = Bench()
    bench.store.from_memory = True
    bench.store.go.clear()
    wants = [Want(b"a"), Want(confirmation=Confirmation("g", "demo", 0, 28)), Want(b"b", b"c")]
    for want in wants:
        bench.path.submit(want)
    await until(lambda: wants[0].ends and wants[2].ends)
    assert [want.ends for want in wants] == [[[b"a"]], [], [[b"b", b"c"]]], "a position waits for the journal"
    assert [len(early) for early in bench.store.early] == [3]
    assert bench.published == [{("demo", 0)}]
    assert bench.path.staged_bytes > 0, "it counts until it is written"
    bench.store.go.set()
    await until(lambda: wants[1].ends)
    assert [len(want.ends) for want in wants] == [1, 1, 1], "nobody is told twice"
    assert (bench.path.staged_bytes, bench.path.stats.messages) == (0, 3)
    await bench.path.close(timeout_s=5)


async def test_what_was_promised_from_memory_is_not_refused_when_its_write_fails() -> None:
    bench = Bench()
    bench.store.from_memory = True
    bench.store.errors = [DiskFullError("no space")]
    promised, position = Want(b"a"), Want(confirmation=Confirmation("g", "demo", 0, 28))
    bench.path.submit(promised)
    bench.path.submit(position)
    await until(lambda: position.ends)
    assert (promised.ends, position.ends) == ([[b"a"]], [Code.SERVER_RECEIVE_OVERFLOW])
    assert (bench.path.staged_bytes, bench.store.abandoned) == (0, 1)
    await bench.path.close(timeout_s=5)


async def test_those_promised_from_memory_are_told_after_those_of_the_write_before() -> None:
    bench = Bench()
    bench.store.go.clear()
    told: list[Any] = []
    bench.path.submit(Told(told, b"disk"))
    await until(lambda: bench.store.in_flight)
    bench.store.from_memory = True
    bench.path.submit(Told(told, b"memory"))
    bench.store.go.set()
    await until(lambda: len(told) == 2)
    assert told == [("written", b"disk"), ("written", b"memory")]
    await bench.path.close(timeout_s=5)


async def test_one_that_fails_when_it_is_told_does_not_keep_the_others_from_being_told() -> None:
    bench = Bench()
    bench.path._on_published = lambda keys: 1 / 0  # type: ignore[assignment]
    bench.path._on_written = lambda: 1 / 0  # type: ignore[assignment]
    wants = [Fault(b"a"), Want(b"b"), Fault(b"c", deadline_s=-1), Want(b"d")]
    await bench.submit(*wants)
    assert [want.ends for want in wants] == [[[b"a"]], [[b"b"]], ["expired"], [[b"d"]]]
    assert bench.path.errors.fault is not None
    bench.store.errors.append(DiskFullError("full"))
    wants = [Fault(b"e"), Want(b"f")]
    await bench.submit(*wants)
    await bench.submit(later := Want(b"g"))
    assert ([want.ends for want in wants], later.ends) == ([[419], [419]], [[b"g"]])
    assert bench.path.staged_bytes == 0
    await bench.path.close(timeout_s=5)


async def test_one_of_which_the_place_cannot_be_seen_leaves_nobody_waiting() -> None:
    bench = Bench()
    wants = [Want(b"a"), Fault(b"b"), Want(b"c")]
    wants[1].order = wants[1]
    await bench.submit(*wants)
    assert [want.ends for want in wants] == [[Code.INTERNAL_SERVER_ERROR]] * 3
    assert isinstance(bench.path.errors.fatal, ValueError)
    await bench.submit(late := Want(b"d"))
    assert late.ends == [Code.INTERNAL_SERVER_ERROR]
    await bench.path.close(timeout_s=5)


@pytest.mark.parametrize("ahead", [False, True], ids=["first", "behind another"])
async def test_a_write_for_which_there_is_no_thread_is_refused_and_so_is_what_waits(
    monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    bench = Bench(max_write_bytes=1)
    calls: list[object] = []
    take = asyncio.get_running_loop().run_in_executor

    def full(executor: Any, work: Any, *args: Any) -> Any:
        calls.append(work)
        if len(calls) > ahead:
            raise RuntimeError("can't start new thread")
        return take(executor, work, *args)

    monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", full)
    wants = [Want(b"a"), Want(b"b"), Want(b"c")]
    await bench.submit(*wants)
    refused = [Code.INTERNAL_SERVER_ERROR]
    assert [want.ends for want in wants] == [[[b"a"]] if ahead else refused, refused, refused]
    assert isinstance(bench.path.errors.fatal, RuntimeError)
    assert (bench.store.in_flight, bench.path.staged_bytes) == (0, 0)
    await bench.path.close(timeout_s=5)


async def test_what_cannot_be_readable_early_is_told_when_it_is_written() -> None:
    bench = Bench()
    bench.store.from_memory = True
    early = bench.store.publish_early

    def broken(prepared: Any) -> None:
        bench.store.publish_early = early  # type: ignore[method-assign]
        raise ValueError("not this one")

    bench.store.publish_early = broken  # type: ignore[method-assign]
    await bench.submit(first := Want(b"a"))
    await bench.submit(second := Want(b"b"))
    assert (first.ends, second.ends) == ([[b"a"]], [[b"b"]])
    assert isinstance(bench.path.errors.fault, ValueError)
    await bench.path.close(timeout_s=5)


LARGE = b"x" * 70_000
"""Enough to be prepared behind a block that is being written."""


async def test_enough_is_prepared_behind_the_block_that_is_being_written() -> None:
    bench = Bench()
    bench.store.go.clear()
    first, second, third = Want(b"a"), Want(LARGE), Want(b"c")
    bench.path.submit(first)
    await until(lambda: bench.store.in_flight == 1)
    bench.path.submit(second)
    await until(lambda: bench.store.in_flight == 2)
    bench.path.submit(third)
    assert not first.ends
    bench.store.go.set()
    await until(lambda: third.ends)
    assert [want.ends for want in (first, second, third)] == [[[b"a"]], [[LARGE]], [[b"c"]]]
    assert [len(write) for write in bench.store.writes] == [1, 1, 1]
    assert bench.path.staged_bytes == 0
    await bench.path.close(timeout_s=5)


async def test_little_waits_for_the_end_of_the_block_that_is_being_written() -> None:
    bench = Bench()
    bench.store.go.clear()
    first, others = Want(b"a"), [Want(b"b"), Want(b"c")]
    bench.path.submit(first)
    await until(lambda: bench.store.in_flight == 1)
    for want in others:
        bench.path.submit(want)
    await asyncio.sleep(0)
    assert bench.store.in_flight == 1
    bench.store.go.set()
    await until(lambda: others[1].ends)
    assert [len(write) for write in bench.store.writes] == [1, 2]
    await bench.path.close(timeout_s=5)


@pytest.mark.parametrize(
    ("error", "code"),
    [(DiskFullError("no space"), Code.SERVER_RECEIVE_OVERFLOW), (DiskFailedError("broken"), Code.SERVICE_UNAVAILABLE)],
)
async def test_what_stands_behind_a_failed_block_is_prepared_again(error: StorageError, code: Code) -> None:
    bench = Bench()
    bench.store.go.clear()
    bench.store.errors = [error]
    first, second, third = Want(b"a"), Want(LARGE), Want(b"c")
    bench.path.submit(first)
    await until(lambda: bench.store.in_flight == 1)
    bench.path.submit(second)
    await until(lambda: bench.store.in_flight == 2)
    bench.path.submit(third)
    bench.store.go.set()
    await until(lambda: third.ends)
    final = isinstance(error, DiskFailedError)
    assert [want.ends for want in (first, second, third)] == [
        [code],
        [code] if final else [[LARGE]],
        [code] if final else [[b"c"]],
    ]
    assert [len(write) for write in bench.store.writes] == ([] if final else [2])
    assert bench.path.staged_bytes == 0
    await bench.path.close(timeout_s=5)
