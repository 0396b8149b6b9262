"""What is written and read for many messages at once is what it is for each by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import EnvelopeError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.wire.fast.response_reading import read_accepted
from pytubemq.wire.fast.send_message import decode_accepted, decode_send, decode_send_response, encode_send_response
from pytubemq.wire.fast.send_reading import SendReader, SendRun
from pytubemq.wire.fast.send_responses import encode_accepted_responses
from pytubemq.wire.fast.send_run import SendRunWriter
from pytubemq.wire.fast.sends import SendTemplate
from pytubemq.wire.fast.sends import encode_send_response as any_answer
from pytubemq.wire.framing.frame import Frame, FrameDecoder
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
from pytubemq.wire.rpc.envelope import Request, decode_request, decode_response, encode_request, encode_response
from pytubemq.wire.rpc.methods import Method, Service
from pytubemq.wire.rpc.request_run import RequestRun
from pytubemq.wire.rpc.response_run import ResponseRun
from pytubemq.wire.rpc.stream import _FREQUENT, RequestStream, ResponseStream

headers = st.tuples(
    st.sampled_from([0, 1, 5]), st.sampled_from([None, "kind"]), st.sampled_from([None, "202501020304"])
)
partition_ids = st.integers(0, 0x7FFFFFFF)
ids = st.one_of(st.integers(0, 1 << 14), st.integers(0, (1 << 63) - 20_000))
sequences = st.one_of(st.none(), st.integers(0, 300), st.integers(16_000, 17_000), st.integers(0, (1 << 63) - 400))


def each_alone(
    template: SendTemplate,
    serial: int,
    partition_id: int,
    messages: list[tuple[bytes, tuple[int, str | None, str | None]]],
    sequence: int | None,
    block_bytes: int | None,
) -> bytes:
    """The frames of these messages, each encoded without its neighbours."""
    who = (None, None) if sequence is None else (4711, 3)
    frames: list[bytes] = []
    for number, (payload, header) in enumerate(messages):
        body = template.encode(partition_id, payload, *header, None if sequence is None else sequence + number, *who)
        frames += encode_request(
            serial + number,
            service=Service.BROKER_WRITE,
            method=Method.SEND_MESSAGE_P2B,
            timeout_ms=5000,
            body=(body,),
            block_bytes=block_bytes,
        )
    return b"".join(frames)


def writer_of(template: SendTemplate, sequence: int | None, block_bytes: int | None) -> SendRunWriter:
    who = (None, None) if sequence is None else (4711, 3)
    return SendRunWriter(template, timeout_ms=5000, block_bytes=block_bytes, producer_id=who[0], producer_epoch=who[1])


@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=300), headers), min_size=1, max_size=20),
    partition_ids,
    sequences,
    st.sampled_from([None, 17]),
    st.sampled_from([None, 150]),
    st.integers(1, 1 << 30),
)
def test_a_run_of_sends_has_the_bytes_of_each_send(
    messages: list[tuple[bytes, tuple[int, str | None, str | None]]],
    partition_id: int,
    sequence: int | None,
    token: int | None,
    block_bytes: int | None,
    serial: int,
) -> None:
    auth_info = None if token is None else AuthorizedInfo(visit_authorized_token=token)
    template = SendTemplate("client", "t", 77, auth_info=auth_info)
    found = writer_of(template, sequence, block_bytes).encode(
        serial, partition_id, [payload for payload, _ in messages], [header for _, header in messages], sequence
    )
    assert b"".join(found) == each_alone(template, serial, partition_id, messages, sequence, block_bytes)


@given(
    partition_ids,
    st.lists(st.integers(1, 300), min_size=1, max_size=5),
    st.integers(1, 300),
    sequences,
    st.sampled_from([None, None, 150]),
    st.one_of(st.integers(1, 300), st.integers(65_300, 65_600), st.just(0x7FFFFFFF - 299)),
)
def test_a_run_of_plain_sends_has_the_bytes_of_each_send(
    partition_id: int, sizes: list[int], count: int, sequence: int | None, block_bytes: int | None, serial: int
) -> None:
    template = SendTemplate("client", "t", 77)
    payloads = [bytes([number & 0xFF]) * sizes[number % len(sizes)] for number in range(count)]
    found = writer_of(template, sequence, block_bytes).encode(serial, partition_id, payloads, None, sequence)
    plain: list[tuple[bytes, tuple[int, str | None, str | None]]] = [(payload, (0, None, None)) for payload in payloads]
    assert b"".join(found) == each_alone(template, serial, partition_id, plain, sequence, block_bytes)


def answers_of(bodies: list[bytes], serial: int = 5) -> ResponseRun | None:
    """As a connection reads them when they are alike."""
    stream = ResponseStream()
    stream._frequency = dict.fromkeys(range(1000), _FREQUENT - 1)
    frames = [b"".join(encode_response(serial + n, method=13, body=(body,))) for n, body in enumerate(bodies)]
    (lead,) = FrameDecoder().feed(b"".join(encode_response(1, method=13, body=(bodies[0],))))
    decode_response(lead)  # how answers begin is learned from those decoded
    stream.feed_responses(frames[0])
    found = stream.feed_responses(b"".join(frames))
    return next((item for item in found if isinstance(item, ResponseRun)), None)


def told_of(run: ResponseRun) -> list[tuple[int, int, int] | None]:
    told: list[tuple[int, int, int] | None] = []
    for count, message_id, offset, time_ms in read_accepted(run):
        told += [(message_id + n, offset + n * OFFSET_UNIT, time_ms) for n in range(count)]
    return told


RISING = st.one_of(st.integers(0, 40_000), st.integers(0, 1 << 40), st.integers((1 << 62) - 400, (1 << 62) + 20_000))


@given(RISING, RISING, st.sampled_from([0, 5, 1_700_000_000_000]), st.integers(8, 300), st.sampled_from([1, 1, 1, 2]))
def test_what_a_run_of_answers_tells_is_what_each_tells(
    message_id: int, place: int, time_ms: int, count: int, step: int
) -> None:
    offset = place % (1 << 50) * OFFSET_UNIT
    run = answers_of(
        [
            encode_send_response(message_id + n * step, offset + n * OFFSET_UNIT, time_ms + n // 100)
            for n in range(count)
        ]
    )
    if run is not None:
        told = told_of(run)
        assert told == [decode_accepted(one.body) for one in run][: len(told)]


def test_the_answers_to_messages_taken_together_are_read_together() -> None:
    message_id, offset = (1 << 62) + 16_300, 40 * (1 << 14) - 28 * 50
    run = answers_of(
        [encode_send_response(message_id + n, offset + n * OFFSET_UNIT, 1_700_000_000_000) for n in range(200)]
    )
    assert run is not None
    assert len(run) == 200
    taken = read_accepted(run)
    assert sum(one.messages for one in taken) == 200
    assert len(taken) == 3


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4), st.integers(8, 40))
def test_an_answer_that_was_changed_is_not_read_with_the_others(changes: list[tuple[int, int]], count: int) -> None:
    bodies = [
        bytearray(encode_send_response((1 << 62) + n, (20_000 + n) * OFFSET_UNIT, 1_700_000_000_000))
        for n in range(count)
    ]
    for at, byte in changes:
        body = bodies[at % count]
        body[at // count % len(body)] = byte
    run = answers_of([bytes(body) for body in bodies])
    if run is not None:
        for one, told in zip(run, told_of(run), strict=False):
            assert decode_accepted(one.body) == told


@given(
    st.lists(st.tuples(st.integers(0, 300), st.binary(min_size=0, max_size=300)), min_size=1, max_size=30),
    st.one_of(st.none(), st.integers(0, 20_000_000)),
    st.sampled_from([None, "kind"]),
)
def test_a_run_of_sends_is_read_as_each_send_is(
    run: list[tuple[int, bytes]], first: int | None, msg_type: str | None
) -> None:
    template = SendTemplate("client", "t", 77)
    who = (None, None) if first is None else (4711, 3)
    bodies = [
        template.encode(partition_id, payload, 0, msg_type, None, None if first is None else first + number, *who)
        for number, (partition_id, payload) in enumerate(run)
    ]
    found = SendReader().read(singly(bodies))
    assert found is not None
    check_read(found, bodies, first)


def singly(bodies: list[bytes]) -> list[Request]:
    return [Request(number, 3, 13, 1000, 2, None, body) for number, body in enumerate(bodies)]


def requests_of(bodies: list[bytes]) -> list[Request | RequestRun]:
    """As a connection reads requests, after many that were as long."""
    stream = RequestStream()
    (lead,) = FrameDecoder().feed(b"".join(request_frame(1, bodies[0])))
    decode_request(lead)  # how requests begin is learned from those decoded
    stream.feed_requests(b"".join(request_frame(1, bodies[0])))
    stream._frequency = dict.fromkeys(range(1000), _FREQUENT - 1)
    frames = b"".join(b"".join(request_frame(5 + n, body)) for n, body in enumerate(bodies))
    found = stream.feed_requests(frames)
    assert not any(isinstance(item, Frame) for item in found)
    return [item for item in found if not isinstance(item, Frame)]


def request_frame(serial: int, body: bytes) -> list[bytes]:
    return encode_request(
        serial, service=Service.BROKER_WRITE, method=Method.SEND_MESSAGE_P2B, timeout_ms=5000, body=(body,)
    )


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 200]), st.binary(min_size=9, max_size=9)), min_size=8, max_size=60),
    st.one_of(
        st.none(), st.integers(0, 300), st.integers(128, 16_400), st.integers(16_300, 16_400),
        st.integers(2_097_100, 2_097_160), st.integers((1 << 62) - 40, 1 << 62),
    ),
    st.sampled_from([1, 1, 1, 2]),
    st.sampled_from(["one partition", "one after the other", "any"]),
)  # fmt: skip
def test_sends_that_are_alike_are_read_as_each_send_is(
    run: list[tuple[int, bytes]], first: int | None, step: int, partitions: str
) -> None:
    if partitions == "one partition":
        run = [(run[0][0], payload) for _, payload in run]
    elif partitions == "one after the other":
        run = sorted(run)
    template = SendTemplate("client", "t", 77)
    who = (None, None) if first is None else (4711, 3)
    bodies = [
        template.encode(
            partition_id, payload, 0, None, None, None if first is None else first + number * step, *who
        )
        for number, (partition_id, payload) in enumerate(run)
    ]  # fmt: skip
    parts = requests_of(bodies)
    assert any(isinstance(part, RequestRun) for part in parts) or len({len(body) for body in bodies}) > 1
    found = SendReader().read(parts)
    assert found is not None
    check_read(found, bodies, first)


@given(
    st.integers(8, 30), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=3),
    st.booleans(),
)  # fmt: skip
def test_a_send_among_those_alike_that_was_changed_is_read_as_it_is(
    count: int, changes: list[tuple[int, int]], numbered: bool
) -> None:
    template = SendTemplate("client", "t", 77)
    who = (4711, 3) if numbered else (None, None)
    bodies = [
        bytearray(template.encode(3, b"%07d" % n, 0, None, None, 20_000 + n if numbered else None, *who))
        for n in range(count)
    ]
    for at, byte in changes:
        body = bodies[at % count]
        body[at // count % len(body)] = byte
    changed = [bytes(body) for body in bodies]
    try:
        found = SendReader().read(requests_of(changed))
    except EnvelopeError:
        return
    if found is not None:
        check_read(found, changed, 0 if numbered else None)


def check_read(found: SendRun, bodies: list[bytes], first: int | None) -> None:
    """What was read of them together is what each says."""
    assert found.first == decode_send(bodies[0])
    told = {}
    for group in found.groups:
        assert len(group.numbers) == len(group.payloads) > 0
        for behind, (number, payload) in enumerate(zip(group.numbers, group.payloads, strict=True)):
            sequence = None if first is None else group.sequence + behind
            told[number] = found.first._replace(partition_id=group.partition_id, payload=payload, sequence=sequence)
    assert [told[number] for number in range(len(bodies))] == [decode_send(body) for body in bodies]
    for partition_id in {group.partition_id for group in found.groups}:
        order = [number for group in found.groups if group.partition_id == partition_id for number in group.numbers]
        assert order == sorted(order)


@given(st.binary(max_size=60), st.integers(0, 59), st.integers(0, 255))
def test_a_send_that_differs_is_not_read_with_the_others(payload: bytes, at: int, byte: int) -> None:
    template = SendTemplate("client", "t", 77)
    good = template.encode(3, payload, 0, None, None, 5, 4711, 3)
    changed = bytearray(template.encode(3, payload, 0, None, None, 6, 4711, 3))
    changed[at % len(changed)] = byte
    found = SendReader().read(singly([good, bytes(changed)]))
    if found is None:
        return
    other = decode_send(bytes(changed))
    for group in found.groups:
        for behind, (number, told) in enumerate(zip(group.numbers, group.payloads, strict=True)):
            if number == 1:
                assert other == found.first._replace(
                    partition_id=group.partition_id, payload=told, sequence=group.sequence + behind
                )


@given(
    st.lists(st.integers(1, (1 << 31) - 1), min_size=1, max_size=20)
    | st.builds(lambda first, count: list(range(first, first + count)), st.integers(1, 1 << 30), st.integers(1, 1500)),
    ids, ids | st.integers(1 << 14, (1 << 50)), st.integers(0, 1 << 45), st.sampled_from([None, 1023]),
)  # fmt: skip
def test_a_run_of_answers_has_the_bytes_of_each_answer(
    serials: list[int], message_id: int, offset: int, time_ms: int, capabilities: int | None
) -> None:
    expected = [
        encode_response(
            serial,
            method=Method.SEND_MESSAGE_P2B,
            body=(encode_send_response(message_id + number, offset + 28 * number, time_ms),),
            capabilities=capabilities,
        )
        for number, serial in enumerate(serials)
    ]
    found = encode_accepted_responses(serials, message_id, offset, time_ms, capabilities=capabilities)
    assert b"".join(found) == b"".join(part for parts in expected for part in parts)


@given(ids, ids, st.integers(0, (1 << 63) - 1))
def test_what_was_taken_is_read_as_the_whole_answer_is(message_id: int, offset: int, time_ms: int) -> None:
    for number in range(3):  # the later ones are read by what the first one has taught
        body = encode_send_response(message_id + number, offset, time_ms)
        whole = decode_send_response(body)
        assert decode_accepted(body) == (whole.message_id, whole.append_offset, whole.append_time)


@given(st.integers(1 << 57, 1 << 58), st.integers(0, 1 << 40), st.integers(0, 70), st.integers(0, 255))
def test_a_damaged_answer_is_read_as_the_whole_answer_is(message_id: int, offset: int, at: int, byte: int) -> None:
    body = bytearray(encode_send_response(message_id, offset, 1_700_000_000_000))
    decode_accepted(bytes(body))
    body[at % len(body)] = byte
    try:
        whole = decode_send_response(bytes(body))
    except Exception as error:
        with pytest.raises(type(error)):
            decode_accepted(bytes(body))
        return
    told = (whole.message_id, whole.append_offset, whole.append_time)
    assert decode_accepted(bytes(body)) == (told if whole.err_code == 200 and None not in told else None)


def test_a_refusal_is_none_of_what_was_taken() -> None:
    assert decode_accepted(any_answer(success=False, err_code=403, err_msg="no")) is None


def test_sends_that_begin_with_too_much_are_read_one_by_one_and_nothing_is_remembered_of_them() -> None:
    reader = SendReader()
    for number in range(3):
        body = SendTemplate(f"{number}" * 300, "t", 77).encode(0, b"x", 0)
        assert reader.read(singly([body, body])) is None
    assert not reader._places
