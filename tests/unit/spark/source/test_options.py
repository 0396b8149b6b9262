"""Options: what is taken, and the one error for what is not."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from pytubemq.errors import ConfigError
from pytubemq.model.ids import Address, Partition
from pytubemq.spark.source.options import Positions, parse_options
from pytubemq.spark.source.schema import COLUMNS

NEEDED = {"master": "127.0.0.1:8715", "topic": "demo"}


def test_defaults() -> None:
    options = parse_options(NEEDED)
    assert options.masters == (Address("127.0.0.1", 8715),)
    assert options.topics == ("demo",)
    assert options.starting is None
    assert options.ending is None
    assert options.max_rows_per_trigger is None
    assert options.fail_on_data_loss is True
    assert options.columns == COLUMNS
    assert options.time_zone == ZoneInfo("UTC")


def test_names_are_case_insensitive_and_values_are_read() -> None:
    options = parse_options(
        {
            "MASTER": "a:1, b",
            "Topic": "t1, t2,t1",
            "startingoffsets": '{"1:t1:0": 280, "2:t2:3": "latest"}',
            "ENDINGOFFSETS": "Latest",
            "maxrowspertrigger": "500",
            "failOnDataLoss": "FALSE",
            "columns": "offset, BODY",
            "timezone": "Asia/Shanghai",
        }
    )
    assert options.masters == (Address("a", 1), Address("b", 8715))
    assert options.topics == ("t1", "t2")
    assert options.starting == Positions("earliest", {Partition(1, "t1", 0): 280, Partition(2, "t2", 3): "latest"})
    assert options.ending == Positions("latest", {})
    assert options.max_rows_per_trigger == 500
    assert options.fail_on_data_loss is False
    assert options.columns == ("offset", "body")
    assert options.time_zone == ZoneInfo("Asia/Shanghai")


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
        ({"startingOffsets": '{"demo-0": 1}'}, "startingOffsets takes"),
        ({"startingOffsets": '{"1:demo:0": -1}'}, "startingOffsets takes"),
        ({"startingOffsets": '{"1:demo:0": true}'}, "startingOffsets takes"),
        ({"startingOffsets": '{"1:other:0": 1}'}, "whose topic is not read"),
        ({"maxRowsPerTrigger": "0"}, "at least 1"),
        ({"maxRowsPerTrigger": "many"}, "at least 1"),
        ({"failOnDataLoss": "no"}, "true or false"),
        ({"columns": "body,key"}, "columns takes"),
        ({"columns": "body,body"}, "columns takes"),
        ({"timeZone": "Mars/Olympus"}, "IANA"),
    ],
)
def test_a_wrong_option_is_named_with_the_remedy(wrong: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(NEEDED | wrong)
    assert says in str(caught.value)
    assert next(iter(wrong)) in str(caught.value)


@pytest.mark.parametrize("missing", ["master", "topic"])
def test_what_is_needed_is_asked_for(missing: str) -> None:
    with pytest.raises(ConfigError, match=f"needs the option {missing}"):
        parse_options({name: value for name, value in NEEDED.items() if name != missing})
