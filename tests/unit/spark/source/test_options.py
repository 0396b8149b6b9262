"""Options: what is taken, and the one error for what is not."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.model.ids import Address, Partition
from pytubemq.spark.source.option_table import BY_NAME, OPTIONS, Scope
from pytubemq.spark.source.options import JavaReads, Limits, NoSuchTime, OnDataLoss, Topics, parse_options
from pytubemq.spark.source.positions import AtGroup, AtOffset, AtTime, Edge, Positions
from pytubemq.spark.source.schema import ALL_COLUMNS, COLUMNS

NEEDED = {"master": "127.0.0.1:8715", "topic": "demo"}


def test_defaults() -> None:
    options = parse_options(NEEDED)
    assert options.masters == ClusterAddress((Address("127.0.0.1", 8715),))
    assert options.topics == Topics(("demo",))
    assert options.starting is None
    assert options.ending is None
    assert options.limits == Limits()
    assert options.on_data_loss is OnDataLoss.FAIL
    assert options.fail_on_data_loss is True
    assert options.columns == COLUMNS
    assert options.time_zone == ZoneInfo("UTC")
    assert options.java_reads is JavaReads.ALL


def test_names_are_case_insensitive_and_values_are_read() -> None:
    options = parse_options(
        {
            "MASTER": "a:1, b",
            "Topic": "t1, t2,t1",
            "startingoffsets": '{"1:t1:0": 280, "2:t2:3": "latest", "t1": "-10m", "t2": "group:g"}',
            "ENDINGOFFSETS": "Latest",
            "startingTimestampStrategy": "Earliest",
            "maxrowspertrigger": "500",
            "maxBytesPerTrigger": "64MiB",
            "minRowsPerTrigger": "10",
            "maxTriggerDelay": "30s",
            "maxFetchTimePerTask": "1.5",
            "maxRecordsPerTask": "1000",
            "minPartitions": "8",
            "filters": "a, b,a",
            "commitGroup": "spark_demo",
            "failOnDataLoss": "REPORT",
            "lossDirectory": "/tmp/loss",
            "columns": "offset, BODY, messageid",
            "timezone": "Asia/Shanghai",
            "dedup": "true",
            "javaReads": "flushed",
        }
    )
    assert options.masters == ClusterAddress((Address("a", 1), Address("b", 8715)))
    assert options.topics.names == ("t1", "t2")
    assert options.starting == Positions(
        Edge.EARLIEST,
        {"t1": AtTime(ago_ms=600_000), "t2": AtGroup("g")},
        {Partition(1, "t1", 0): AtOffset(280), Partition(2, "t2", 3): Edge.LATEST},
    )
    assert options.ending == Positions(Edge.LATEST)
    assert options.no_such_time is NoSuchTime.EARLIEST
    assert options.limits == Limits(500, 64 << 20, 10, 30.0, 1.5)
    assert (options.max_task_rows, options.min_tasks) == (1000, 8)
    assert options.filters == ("a", "b")
    assert options.commit_group == "spark_demo"
    assert (options.on_data_loss, options.fail_on_data_loss) == (OnDataLoss.REPORT, False)
    assert options.loss_directory == "/tmp/loss"
    assert options.columns == ("offset", "body", "messageId")
    assert options.time_zone == ZoneInfo("Asia/Shanghai")
    assert options.dedup is True
    assert options.java_reads is JavaReads.FLUSHED


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1700000000123", AtTime(1_700_000_000_123)),
        ("-90s", AtTime(ago_ms=90_000)),
        ("-2D", AtTime(ago_ms=172_800_000)),
        ("1970-01-01T00:00:01Z", AtTime(1000)),
        ("1970-01-01T08:00:01+08:00", AtTime(1000)),
        ("1970-01-01T08:00:01", AtTime(1000)),
        ("1960-01-01T00:00:00Z", AtTime(0)),
    ],
)
def test_times_are_milliseconds_iso_texts_or_before_now(text: str, time: AtTime) -> None:
    options = parse_options(NEEDED | {"startingTimestamp": text, "timeZone": "Asia/Shanghai"})
    assert options.starting == Positions(time)
    by_topic = parse_options(NEEDED | {"endingTimestamp": f'{{"demo": "{text}"}}', "timeZone": "Asia/Shanghai"})
    assert by_topic.ending == Positions(Edge.LATEST, {"demo": time})


def test_a_time_before_now_is_counted_from_now() -> None:
    assert AtTime(ago_ms=600).at_ms(1000) == 400
    assert AtTime(ago_ms=6000).at_ms(1000) == 0
    assert AtTime(7).at_ms(1000) == 7


def test_topics_by_pattern_are_those_whose_whole_name_matches() -> None:
    topics = parse_options({"master": "a", "topicPattern": "app_.*"}).topics
    assert topics.has("app_one")
    assert not topics.has("my_app_one")
    assert not Topics(("app_one",)).has("app_two")


def test_the_decoders_options_are_handed_on_as_they_came() -> None:
    options = parse_options(NEEDED | {"decode": "csv", "decode.schema": "a int", "decode.fieldDelimiter": "|"})
    assert options.decode == {"decode": "csv", "decode.schema": "a int", "decode.fieldDelimiter": "|"}
    assert parse_options(NEEDED).decode == {}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"maxRowPerTriger": "5"}, "did you mean maxRowsPerTrigger?"),
        ({"zzz": "5"}, "the options are master, topic"),
        ({"path": "demo"}, '.option("topic", ...)'),
        ({"master": "nohost:port"}, "host:port"),
        ({"topic": "9demo"}, "topic takes"),
        ({"startingOffsets": "newest"}, "startingOffsets takes"),
        ({"startingOffsets": "[1]"}, "startingOffsets takes"),
        ({"startingOffsets": "280"}, "startingOffsets takes"),
        ({"startingOffsets": '{"demo-0": 1}'}, "startingOffsets takes"),
        ({"startingOffsets": '{"1:demo:0": -1}'}, "startingOffsets takes"),
        ({"startingOffsets": '{"1:demo:0": true}'}, "startingOffsets takes"),
        ({"startingOffsets": '{"1:demo:0": "280"}'}, "startingOffsets takes"),
        ({"startingOffsets": '{"1:demo:0": "soon"}'}, "startingOffsets takes"),
        ({"startingOffsets": "{" * 100_000}, "startingOffsets takes"),
        ({"startingOffsets": '{"1:other:0": 1}'}, "a topic that is not read"),
        ({"endingOffsets": '{"other": "latest"}'}, "a topic that is not read"),
        ({"startingOffsets": "group:"}, "startingOffsets takes"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp takes"),
        ({"startingTimestamp": "-1"}, "startingTimestamp takes"),
        ({"startingTimestamp": "earliest"}, "startingTimestamp takes"),
        ({"endingTimestamp": '{"demo": true}'}, "endingTimestamp takes"),
        ({"startingTimestampStrategy": "newest"}, "error, latest or earliest"),
        ({"maxRowsPerTrigger": "0"}, "at least 1"),
        ({"maxRowsPerTrigger": "many"}, "at least 1"),
        ({"maxBytesPerTrigger": "-1"}, "a size"),
        ({"maxFetchTimePerTask": "0s"}, "a duration"),
        ({"filters": " , "}, "message types"),
        ({"filters": "a=b"}, "message types"),
        ({"commitGroup": "with space"}, "a group"),
        ({"failOnDataLoss": "no"}, "true, false or report"),
        ({"columns": "body,key"}, "columns takes"),
        ({"columns": "body,body"}, "columns takes"),
        ({"timeZone": "Mars/Olympus"}, "IANA"),
        ({"dedup": "yes"}, "true or false"),
        ({"javaReads": "some"}, "all or flushed"),
    ],
)
def test_a_wrong_option_is_named_with_the_remedy(wrong: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(NEEDED | wrong)
    assert says in str(caught.value)
    assert next(iter(wrong)) in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"topicPattern": "de.*"}, "topic and topicPattern exclude each other"),
        ({"startingOffsets": "latest", "startingTimestamp": "-1m"}, "startingTimestamp exclude each other"),
        ({"endingOffsets": "latest", "endingTimestamp": "-1m"}, "endingTimestamp exclude each other"),
        ({"columns": "body", "decode": "raw"}, "decode.columns names the raw columns to keep"),
        ({"maxTriggerDelay": "1m"}, "no meaning without minRowsPerTrigger"),
        ({"minRowsPerTrigger": "9", "maxRowsPerTrigger": "8"}, "is more than maxRowsPerTrigger"),
        ({"startingTimestampStrategy": "latest"}, "no meaning without a time"),
        ({"startingTimestampStrategy": "latest", "startingOffsets": "earliest"}, "no meaning without a time"),
        ({"failOnDataLoss": "report"}, "belong together"),
        ({"failOnDataLoss": "false", "lossDirectory": "/tmp/x"}, "belong together"),
        ({"lossDirectory": "/tmp/x"}, "no meaning without failOnDataLoss"),
        ({"decode.schema": "a int"}, "no meaning without decode"),
        ({"dedupLookBack": "5"}, "no meaning without dedup"),
    ],
)
def test_options_that_contradict_each_other_are_named(wrong: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(NEEDED | wrong)
    assert says in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("pattern", ["(", "", "a" * 2000])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="topicPattern takes"):
        parse_options({"master": "a", "topicPattern": pattern})


@pytest.mark.parametrize("missing", ["master", "topic"])
def test_what_is_needed_is_asked_for(missing: str) -> None:
    with pytest.raises(ConfigError, match=f"needs the option {missing}"):
        parse_options({name: value for name, value in NEEDED.items() if name != missing})


def test_an_option_of_streams_is_refused_in_a_batch() -> None:
    streams = [option.name for option in OPTIONS if option.scope is Scope.STREAM]
    assert {"maxRowsPerTrigger", "commitGroup"} <= set(streams)
    for name in streams:
        with pytest.raises(ConfigError, match=f"{name} is an option of readStream"):
            parse_options(NEEDED | {name: "1"}, Scope.BATCH)
    assert parse_options(NEEDED | {"maxRowsPerTrigger": "1"}, Scope.STREAM).limits.max_rows == 1
    assert parse_options(NEEDED | {"endingOffsets": "latest"}, Scope.STREAM).ending == Positions(Edge.LATEST)


def test_the_table_says_each_option_once_with_what_it_takes() -> None:
    assert len(BY_NAME) == len(OPTIONS)
    for option in OPTIONS:
        assert option.takes
        assert option.doc.endswith(".")
    assert set(COLUMNS) < set(ALL_COLUMNS)
