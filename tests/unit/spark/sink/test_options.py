"""The sink's options: every fault is named, with what to do."""

from __future__ import annotations

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.model.ids import Address
from pytubemq.model.limits import MIB
from pytubemq.spark.sink.encode import InLongEncoder
from pytubemq.spark.sink.options import parse_options

NEEDED = {"master": "here:8715", "topic": "demo"}


def test_defaults() -> None:
    options = parse_options(NEEDED, streaming=False)
    assert (options.masters, options.topic, options.msg_type) == (
        ClusterAddress((Address("here", 8715),)),
        "demo",
        None,
    )
    assert (options.delivery_timeout_s, options.max_buffer_bytes) == (60.0, 64 << 20)
    assert not options.idempotent


def test_names_are_case_insensitive_and_values_are_read() -> None:
    options = parse_options(
        {
            "MASTER": "a,b:1",
            "deliverytimeout": "1.5m",
            "IDEMPOTENT": "True",
            "planismaponly": "true",
            "queryid": "q",
            "BatchId": "7",
            "msgtype": " t ",
            "maxbufferbytes": "32MiB",
        },
        streaming=False,
    )
    assert options.masters == ClusterAddress((Address("a", 8715), Address("b", 1)))
    assert (options.delivery_timeout_s, options.query_id, options.batch_id, options.msg_type) == (90.0, "q", 7, "t")
    assert options.idempotent
    assert options.plan_is_map_only
    assert options.max_buffer_bytes == 32 * MIB


def test_what_spark_adds_to_a_stream_is_passed_over() -> None:
    parse_options({**NEEDED, "checkpointLocation": "/c", "queryName": "q"}, streaming=True)
    with pytest.raises(ConfigError, match="checkpointLocation needs batchId"):
        parse_options({**NEEDED, "checkpointLocation": "/c"}, streaming=False)


@pytest.mark.parametrize("told_apart", [{"planIsMapOnly": "true"}, {"idempotencyKey": "id"}])
def test_an_idempotent_stream_names_its_checkpoint_as_an_option(told_apart: dict[str, str]) -> None:
    given = {**NEEDED, "idempotent": "true", **told_apart}
    assert parse_options({**given, "CHECKPOINTLOCATION": "/c"}, streaming=True).idempotent
    assert parse_options(given, streaming=False).idempotent
    assert parse_options({"master": "here", "idempotent": "true", **told_apart}, streaming=True).topic is None
    with pytest.raises(
        ConfigError, match=r"(?s)needs the option checkpointLocation: .*spark\.sql\.streaming\.checkpointLocation"
    ):
        parse_options({**given, "queryName": "copy"}, streaming=True)


def test_options_of_the_encoder_are_read() -> None:
    given = {**NEEDED, "encode": "inlong-msg", "encode.groupId": "g", "encode.streamid": "s"}
    assert parse_options(given, streaming=False).encoder == InLongEncoder("g", "s", 1, True)
    given |= {"encode.version": "2", "encode.compress": "FALSE"}
    assert parse_options(given, streaming=False).encoder == InLongEncoder("g", "s", 2, False)


@pytest.mark.parametrize(
    ("options", "streaming", "says"),
    [
        ({"topic": "demo"}, False, "needs the option master"),
        ({"master": "a:b:c", "topic": "demo"}, False, "option master = 'a:b:c'"),
        ({**NEEDED, "topic": "no such/topic"}, False, "option topic ="),
        ({**NEEDED, "idempotant": "true"}, False, "did you mean idempotent"),
        ({**NEEDED, "qwertz": "1"}, False, "the options are master, topic"),
        ({**NEEDED, "path": "/x"}, False, "without a path"),
        ({**NEEDED, "idempotent": "yes"}, False, "takes true or false"),
        ({**NEEDED, "deliveryTimeout": "60 parsecs"}, False, "takes a time from 1s to 1h"),
        ({**NEEDED, "deliveryTimeout": "2h"}, False, "takes a time from 1s to 1h"),
        ({**NEEDED, "maxBufferBytes": "1"}, False, "takes a size from 4MiB"),
        ({**NEEDED, "timeZone": "Mars/Base"}, False, "takes an IANA name"),
        ({**NEEDED, "msgType": "a,b"}, False, "msgType takes"),
        ({**NEEDED, "encode": "xml"}, False, "encode takes inlong-msg"),
        ({**NEEDED, "encode.groupId": "g"}, False, "needs encode"),
        ({**NEEDED, "encode": "inlong-msg"}, False, "encode.groupId is ''"),
        ({**NEEDED, "encode": "inlong-msg", "encode.groupid": "g"}, False, "encode.streamId is ''"),
        ({**NEEDED, "encode": "inlong-msg", "encode.groupIt": "g"}, False, "did you mean encode.groupId"),
        ({**NEEDED, "encode": "inlong-msg", "encode.groupId": "a&b"}, False, "without & = and ,"),
        (
            {**NEEDED, "encode": "inlong-msg", "encode.groupId": "g", "encode.streamId": "s", "encode.version": "9"},
            False,
            "it takes 0, 1, 2",
        ),
        ({**NEEDED, "planIsMapOnly": "true"}, False, "needs idempotent"),
        ({**NEEDED, "idempotencyKey": "id"}, False, "needs idempotent"),
        (
            {**NEEDED, "idempotent": "true", "idempotencyKey": "id", "planIsMapOnly": "true"},
            False,
            "contradict each other",
        ),
        ({**NEEDED, "idempotent": "true", "planIsMapOnly": "true", "batchId": "1"}, False, "needs queryId"),
        ({**NEEDED, "idempotent": "true", "queryId": "q", "batchId": str(1 << 31)}, False, "batchId takes"),
        ({**NEEDED, "idempotent": "true", "checkpointLocation": "/c"}, False, "needs batchId"),
        ({**NEEDED, "idempotent": "true", "queryId": ""}, False, "queryId takes"),
        ({**NEEDED, "idempotent": "true", "queryId": "q"}, True, "an option of df.write"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options: dict[str, str], streaming: bool, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(options, streaming=streaming)
    assert says in str(caught.value)
