"""SendMessages of one producer that arrive together: checked, staged and answered together.

The invariant: each has the response that it would have had individually. If one of them needs special treatment, none
is accepted here, and all are served one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from pytubemq.broker import tracing
from pytubemq.broker.append.submission import PARTITION_OVERHEAD_BYTES, RUN_ENTRY_OVERHEAD_BYTES
from pytubemq.broker.produce.send import NO_CHECK_SUM, key_code
from pytubemq.broker.produce.send_checks import mark, partition_fault
from pytubemq.core.refusal import Refused
from pytubemq.core.sequences import NOWHERE
from pytubemq.errors import Code, CorruptError, NotFoundError
from pytubemq.model.filters import NO_FILTER_CODE
from pytubemq.model.limits import MAX_RECORD_BATCH_MESSAGES
from pytubemq.observe.trace_events import MESSAGE
from pytubemq.wire.batch.payload import HAS_ATTRIBUTES, attributes_fit
from pytubemq.wire.fast import send_message, sends
from pytubemq.wire.fast.send_reading import SendReader
from pytubemq.wire.fast.send_responses import encode_accepted_responses
from pytubemq.wire.protocol.messages.broker import SendMessageRequestP2B
from pytubemq.wire.rpc.envelope import encode_response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.broker.append.send_order import SendOrder
    from pytubemq.broker.append.submission import Result
    from pytubemq.broker.produce.send_checks import SendChecks
    from pytubemq.broker.state import BrokerState
    from pytubemq.core.refusal import Refusal
    from pytubemq.core.sequences import ProducerMark
    from pytubemq.net.server.call_run import CallRun
    from pytubemq.storage.journal.staging import AppendedRun, Staging
    from pytubemq.wire.fast.send_group import SendGroup

_MOST_BYTES: Final = 1 << 20
"""Requests of more bytes together are served one by one."""
_MOST_GROUPS: Final = 1_000
"""So are those for more partitions, which would make a block that takes too long to prepare."""


class RunHandlers:
    """The handler of method 13 for several requests at once."""

    def __init__(self, state: BrokerState, checks: SendChecks) -> None:
        self._state = state
        self._checks = checks
        self._reader = SendReader()

    def send_run(self, run: CallRun) -> bool:
        """Accept them if none of them is unusual; return False otherwise."""
        # Together these would make one block of any size, and hold up everybody behind it.
        if run.size_bytes > _MOST_BYTES or len(run.serials) > MAX_RECORD_BATCH_MESSAGES:
            return False
        found = self._reader.read(run.parts)
        if found is None or len(found.groups) > _MOST_GROUPS:
            return False
        first = found.first
        # A checksum is that of one payload, so the first one's says nothing of the others.
        if first.check_sum != NO_CHECK_SUM:
            return False
        state = self._state
        call = run.first_call()
        try:
            # Once for all: the reader has shown that client id and topic are the same in each.
            served, _ = self._checks.source(call, SendMessageRequestP2B, first.client_id, first.topic)
            for group in found.groups:
                if group.partition_id not in served.partition_ids:
                    return False
                # Two numbers say whether all of them are within bounds, without a loop in Python.
                sizes = list(map(len, group.payloads))
                if not 0 < min(sizes) <= max(sizes) <= served.max_payload_bytes:
                    return False
            # The flag is the first one's, which all share.
            if first.flag & HAS_ATTRIBUTES and not all(
                attributes_fit(payload) for group in found.groups for payload in group.payloads
            ):
                return False
            marks = [
                None
                if first.sequence is None
                else mark(first.producer_id, first.producer_epoch, group.sequence, len(group.payloads))
                for group in found.groups
            ]
        # Not refused here: of several messages some may be sound, and the plain path answers each for itself.
        except Refused:
            return False
        code = NO_FILTER_CODE if first.msg_type is None else key_code(first.msg_type)
        state.path.submit(_SendRun(state, run, served.config.name, first.flag, code, found.groups, marks))
        return True


class _SendRun:
    """A run that waits for the journal."""

    __slots__ = (
        "_code",
        "_faults",
        "_flag",
        "_groups",
        "_marks",
        "_run",
        "_state",
        "_topic",
        "deadline_s",
        "size_bytes",
    )

    order: SendOrder | None = None
    confirmations = 0

    def __init__(
        self,
        state: BrokerState,
        run: CallRun,
        topic: str,
        flag: int,
        code: int,
        groups: list[SendGroup],
        marks: list[ProducerMark | None],
    ) -> None:
        self.size_bytes = (
            run.size_bytes + len(run.serials) * RUN_ENTRY_OVERHEAD_BYTES + len(groups) * PARTITION_OVERHEAD_BYTES
        )
        self.deadline_s = run.deadline_s
        self._state = state
        self._run = run
        self._topic = topic
        self._flag = flag
        self._code = code
        self._groups = groups
        self._marks = marks
        self._faults: dict[int, Refusal] = {}
        """Groups that could not be staged."""

    def stage(self, staging: Staging) -> int:
        if MESSAGE.on:
            ids = (group.partition_id for group in self._groups for _ in group.numbers)
            tracing.record_request(self._run.first_call(), self._topic, ids)
        staged = 0
        self._faults = {}
        for at, (group, producer) in enumerate(zip(self._groups, self._marks, strict=True)):
            try:
                staging.append_run(
                    self._topic, group.partition_id, group.payloads, self._flag, self._code, producer=producer
                )
                staged += 1
            except (CorruptError, NotFoundError) as error:
                self._faults[at] = partition_fault(error)
        return staged

    def complete(self, results: Sequence[Result]) -> None:
        state, run = self._state, self._run
        frames: list[bytes] = []
        outcomes = iter(cast("Sequence[AppendedRun]", results))
        for at, group in enumerate(self._groups):
            # Nearly always all are for one partition. Then the range stays a range, and nothing is built for each
            # message.
            whole = len(group.numbers) == len(run.serials)
            serials = run.serials if whole else [run.serials[number] for number in group.numbers]
            fault = self._faults.get(at)
            if fault is not None:
                frames += self._refusals(serials, *fault)
                continue
            spans, time_ms = next(outcomes)
            start = 0
            for count, code, offset, message_id, _, text in spans:
                part = serials[start : start + count]
                start += count
                # Of numbered messages some may be refused, as nobody knows any more whether they are duplicates.
                if code != Code.SUCCESS:
                    frames += self._refusals(part, code, text)
                # Stored before, at a place that nobody remembers any more: accepted, and the offset stays unknown.
                elif offset == NOWHERE:
                    body = send_message.encode_send_response(NOWHERE, NOWHERE, time_ms)
                    for serial in part:
                        frames += self._encode_response(serial, body)
                else:
                    frames += encode_accepted_responses(
                        part, message_id, offset, time_ms, capabilities=run.capabilities
                    )
        # All at once, so that one write to the socket carries them.
        run.reply(frames)
        state.counters.put_s.add(state.clock.now_s() - run.received_s, len(run.serials))

    def refuse(self, refusal: Refusal) -> None:
        self._run.reply(self._refusals(self._run.serials, refusal.code, refusal.text), refused=True)

    def expire(self) -> None:
        self._state.path.stats.expired += len(self._run.serials) - 1  # the path counts one
        self._run.drop()

    def _refusals(self, serials: Sequence[int], code: int, text: str) -> list[bytes]:
        body = sends.encode_send_response(success=False, err_code=code, err_msg=text)
        frames: list[bytes] = []
        for serial in serials:
            self._state.counters.record_refused_send(code)
            frames += self._encode_response(serial, body)
        return frames

    def _encode_response(self, serial: int, body: bytes) -> list[bytes]:
        run = self._run
        return encode_response(
            serial, method=run.first.method, body=(body,), capabilities=run.capabilities,
            block_bytes=run.connection.block_bytes,
        )  # fmt: skip
