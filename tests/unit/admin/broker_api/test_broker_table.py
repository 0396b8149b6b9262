"""The methods of a Broker's page, what they take, and the page of the documentation about them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytubemq.admin.broker_api.changes import OffsetItem, OffsetMap
from pytubemq.admin.broker_api.table import NOT_OFFERED, BrokerTable
from pytubemq.admin.webapi.kinds import BadValueError
from pytubemq.admin.webapi.params import CallError

PAGE = Path(__file__).parents[4].joinpath("docs/reference/broker-htm.md").read_text("utf-8")


def section(title: str) -> list[list[str]]:
    """The rows of the first table under a heading."""
    text = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line.startswith("| `")
    ]


def test_the_reference_tells_every_method_with_its_parameters() -> None:
    told = {}
    for names, params, about in section("Methods"):
        found = re.findall(r"`([^`]+)`(\*?)", params)
        told[tuple(re.findall(r"`(\w+)`", names))] = (about, sorted(found), "audit" in params)
    offered = {}
    for method in BrokerTable().methods:
        own = [param for param in method.params if param.name not in ("modifyUser", "modifyDate", "dataVersionId")]
        marked = [
            (name, "*" if param.required and name == param.names[-1] else "") for param in own for name in param.names
        ]
        offered[method.name, *method.aliases] = (method.about, sorted(marked), method.modify)
    assert told == offered


def test_the_reference_tells_what_is_not_offered() -> None:
    assert {name.strip("`"): why for name, why in section("Not offered")} == NOT_OFFERED


@pytest.mark.parametrize("name", NOT_OFFERED)
def test_what_is_not_offered_says_so(name: str) -> None:
    with pytest.raises(CallError, match=f"{name} is not offered: "):
        BrokerTable().find(name)


def test_offsets_by_partition() -> None:
    kind = OffsetMap()
    assert kind.parse('{"1:demo:0": 28, "2:demo:10001": "56"}') == (
        OffsetItem(1, "demo", 0, 28),
        OffsetItem(2, "demo", 10001, 56),
    )
    assert kind.parse("%7B%221%3Ademo%3A0%22%3A28%7D") == (OffsetItem(1, "demo", 0, 28),)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[1]", "must be a JSON object"),
        ("{}", "0 partitions"),
        ('{"1:demo:0":1,"1:demo:0":2}', "twice"),
        ('{"demo:0":1}', "brokerId:topicName:partitionId"),
        ('{"1:de mo!:0":1}', "letter"),
        ('{"1:demo:0":-1}', "at least 0"),
        ('{"1:demo:0":1.5}', "whole number"),
        ('{"1:demo:0":true}', "whole number"),
        ('{"1:demo:0":null}', "whole number"),
        ('{"1:demo:0":{"a":1}}', "whole number"),
        ('{"1:demo:0":%s}' % ("9" * 30), "whole number"),
        ("[" * 100_000, "nested too deep"),
        ("%ff", "not JSON"),
    ],
)  # fmt: skip
def test_offsets_that_are_none(text: str, said: str) -> None:
    with pytest.raises(BadValueError, match=said):
        OffsetMap().parse(text)
