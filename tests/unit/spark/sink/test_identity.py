"""Who wrote a message, where it goes, and how it looks on the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.core.sequences import MAX_EPOCH, MAX_SEQUENCE
from pytubemq.errors import MessageError
from pytubemq.model.ids import Partition
from pytubemq.spark.sink.identity import Identity, key_digest, short_query, without_identity
from pytubemq.spark.sink.partition_choice import STRIPE_ROWS, Stripes
from pytubemq.spark.sink.payloads import payload_of_one, payloads
from pytubemq.wire.batch.payload import decode_payload
from pytubemq.wire.text.attributes import parse_attributes

QUERY = "8c1f0e9e-0000-4000-8000-1234567890ab"
PARTITIONS = tuple(Partition(1, "t", n) for n in range(5))


def test_producers_are_apart_by_query_and_spark_partition_and_the_same_in_each_batch() -> None:
    ids = {Identity(query, batch, part).producer_id() for query in "ab" for part in range(50) for batch in range(3)}
    assert len(ids) == 100
    assert all(1 <= each <= MAX_SEQUENCE for each in ids)
    assert Identity(QUERY, 3, 2).producer_id() == 3767233321277546151


def test_the_epoch_is_the_batch() -> None:
    assert Identity(QUERY, MAX_EPOCH, 0).epoch == MAX_EPOCH
    with pytest.raises(OverflowError):
        _ = Identity(QUERY, MAX_EPOCH + 1, 0).epoch


def test_names_on_messages_do_not_change() -> None:
    assert short_query(QUERY) == "6fb483d91b022095"
    assert key_digest(b"key") == "2a8c2f001a668c969e39cd867aa36aa5"
    assert Identity(QUERY, 7, 2).by_number() == f"qid={short_query(QUERY)},bid=7,pid=2,seq="
    assert Identity(QUERY, 7, 2).by_key() == f"qid={short_query(QUERY)},bid=7,kid="
    assert without_identity({"qid": "x", "bid": "1", "pid": "1", "seq": "1", "kid": "k", "n": "1"}) == {"n": "1"}


@given(st.integers(0, 50_000), st.integers(0, 20_000), st.integers(0, 100))
def test_stripes_do_not_depend_on_how_rows_come_in(first: int, count: int, batch: int) -> None:
    stripes = Stripes(Identity(QUERY, batch, 1), PARTITIONS)
    divided = list(stripes.divide(first, count))
    assert [at for _, part in divided for at in part] == list(range(count))
    for where, part in divided:
        assert {stripes.place(first + at) for at in (part[0], part[-1])} == {where}


def test_stripes_go_round_all_partitions() -> None:
    stripes = Stripes(Identity(QUERY, 0, 0), PARTITIONS)
    assert {stripes.place(n * STRIPE_ROWS) for n in range(len(PARTITIONS))} == set(PARTITIONS)
    later = [Stripes(Identity(QUERY, batch, 0), PARTITIONS).place(0) for batch in range(len(PARTITIONS))]
    assert set(later) == set(PARTITIONS)


@given(
    st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=30),
    st.sampled_from([None, "t"]),
    st.sampled_from([None, "202401012359"]),
    st.integers(0, 120),
    st.booleans(),
)
def test_payloads_read_back_as_rows(
    bodies: list[bytes], msg_type: str | None, msg_time: str | None, first: int, marked: bool
) -> None:
    identity = Identity(QUERY, 1, 2).by_number() if marked else None
    ends = range(first, first + len(bodies)) if marked else ()
    made, flag = payloads(bodies, msg_type=msg_type, msg_time=msg_time, identity=identity, ends=ends)
    for n, (payload, body) in enumerate(zip(made, bodies, strict=True)):
        found, text = decode_payload(payload, flag)
        own = {"qid": short_query(QUERY), "bid": "1", "pid": "2", "seq": str(first + n)} if marked else {}
        assert (found, *parse_attributes(text or "")) == (body, own, msg_type, msg_time)
        one = payload_of_one(
            body, {}, msg_type=msg_type, msg_time=msg_time, identity=identity, end=first + n if marked else ""
        )
        assert one == (payload, flag)


def test_a_copied_message_loses_the_identity_that_an_earlier_query_gave_it() -> None:
    payload, flag = payload_of_one(
        b"b", {"n": "1", "seq": "9", "pid": "9"}, msg_type=None, msg_time=None, identity="qid=a,bid=1,kid=", end="k"
    )
    text = decode_payload(payload, flag)[1]
    assert text == "n=1,qid=a,bid=1,kid=k"


@pytest.mark.parametrize("attributes", [{"a": ""}, {"sig": "ab=="}, {"n": "1", " ": " "}])
def test_attributes_of_a_message_that_is_copied_are_those_that_it_had(attributes: dict[str, str]) -> None:
    payload, flag = payload_of_one(b"b", attributes, msg_type=None, msg_time=None)
    body, text = decode_payload(payload, flag)
    assert (body, parse_attributes(text or "")) == (b"b", (attributes, None, None))


@pytest.mark.parametrize(
    "attributes", [{"a": None}, {"a": "b,c"}, {"a=": "b"}, {"": "b"}, {"a": "\ud800"}, {"a": "$msgType$"}]
)
def test_attributes_that_cannot_be_written_are_refused(attributes: dict[str, str | None]) -> None:
    with pytest.raises(MessageError):
        payload_of_one(b"b", attributes, msg_type=None, msg_time=None)
