"""What values may be, and what becomes of them."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.admin.webapi import envelope
from pytubemq.admin.webapi.kinds import (
    CONSUMER_ID,
    GROUP,
    MANAGE_STATUS,
    TOPIC,
    BadValueError,
    Bool,
    Date,
    DeletePolicy,
    FilterItems,
    FlowRules,
    Int,
    IPv4,
    JsonSet,
    Kind,
    ListOf,
    NameId,
    QryPriority,
)
from pytubemq.admin.webapi.names import SHORT_NAMES
from pytubemq.admin.webapi.params import PROPS, Param, json_set, read_args
from pytubemq.model.durability import Durability
from pytubemq.model.records import BUILT_IN_PROPS, ManageStatus, Stamp, TopicProps

KINDS: list[Kind] = [
    TOPIC,
    GROUP,
    CONSUMER_ID,
    MANAGE_STATUS,
    Bool(),
    Date(),
    DeletePolicy(),
    FilterItems(),
    FlowRules(),
    Int(),
    IPv4(),
    JsonSet(),
    ListOf(Int()),
    QryPriority(),
]


@given(st.sampled_from(KINDS), st.text(max_size=200) | st.text("0123456789-:,.[]{}\"'%+ab", max_size=60))
def test_any_text_becomes_a_value_or_a_reason(kind: Kind, text: str) -> None:
    reason = "none"
    try:
        kind.parse(text)
    except BadValueError as error:
        reason = str(error)
    assert 0 < len(reason) < 1000
    assert kind.shape


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (TOPIC, "__offset_history__", "__offset_history__"),
        (GROUP, "g-1_x", "g-1_x"),
        (Bool(), "TRUE", True),
        (Bool(), "0", False),
        (Bool(), "-3", True),
        (Int(-5), "-5", -5),
        (QryPriority(), "103", 103),
        (ListOf(Int()), "3,1, 2,,3", (1, 2, 3)),
        (IPv4(), "10.0.0.7", "10.0.0.7"),
        (DeletePolicy(), "delete,3", "delete,3h"),
        (DeletePolicy(), "Delete, 90s", "delete,90s"),
        (DeletePolicy(), "delete,168h", "delete,168h"),
        (MANAGE_STATUS, "only-read", ManageStatus.ONLY_READ),
        (FilterItems(), "b,a", frozenset({"a", "b"})),
        (FlowRules(), "[]", "[]"),
        (FlowRules(), '[{"type":1,"rule":[{"zeroCnt":"3","freqInMs":5}]},{"type":2,"rule":[{}]}]',
         '[{"type":1,"rule":[{"zeroCnt":3,"freqInMs":5}]}]'),
    ],
)  # fmt: skip
def test_values(kind: Kind, text: str, value: object) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (TOPIC, "1t"),
        (TOPIC, "t-x"),
        (TOPIC, "t\n"),
        (GROUP, "ü"),
        (Bool(), "yes"),
        (Int(), "1e3"),
        (Int(), "٣"),
        (Int(), "+1"),
        (QryPriority(), "300"),
        (QryPriority(), "404"),
        (QryPriority(), "111"),
        (FlowRules(), '[{"type":1,"rule":[]}]'),
        (IPv4(), "10.0.0.256"),
        (IPv4(), "::1"),
        (IPv4(), "0.0.0.0"),
        (IPv4(), "224.0.0.1"),
        (DeletePolicy(), "delete,0"),
        (DeletePolicy(), "delete,169h"),
        (DeletePolicy(), "archive,1h"),
        (DeletePolicy(), "delete,1w"),
        (DeletePolicy(), "delete,8d"),
        (Date(), "20260230000000"),
        (Date(), "2026"),
        (FilterItems(), "a b"),
        (FilterItems(), ",".join(f"i{number}" for number in range(501))),
        (ListOf(Int(), most=2), "1,2,3"),
        (MANAGE_STATUS, "ONLINE"),
        (FlowRules(), '[{"type":0,"rule":[{"start":"10:00","end":"09:00","dltInM":30,"limitInM":1,"freqInMs":300}]}]'),
        (JsonSet(), "[1]"),
        (JsonSet(), "[{}, NaN]"),
        (JsonSet(), "%FF"),
    ],
)
def test_refused_values(kind: Kind, text: str) -> None:
    with pytest.raises(BadValueError):
        kind.parse(text)


def test_a_date_comes_back_as_it_was_given() -> None:
    ms = Date().parse("20260710093001")
    assert envelope.date(ms) == "20260710093001"
    assert envelope.date(0) == ""


def test_objects_of_a_set_become_texts_and_may_hold_rules() -> None:
    objects = [{"a": 1, "b": True, "c": "100%+", "flowCtrlInfo": [{"type": 1}], "d": None}]
    encoded = quote(json.dumps(objects))
    assert JsonSet().parse(encoded) == (
        {"a": "1", "b": "true", "c": "100%+", "flowCtrlInfo": '[{"type": 1}]'},
    )  # fmt: skip


def test_short_names_are_known_for_every_property() -> None:
    assert [param.name for param in PROPS if param.name not in SHORT_NAMES] == ["durability"], "it is ours"
    texts = {SHORT_NAMES["numPartitions"]: "3", SHORT_NAMES["deletePolicy"]: "delete,1h", "accPub": "false"}
    found = read_args(PROPS, texts, now_ms=0).props()
    assert found == TopicProps(num_partitions=3, delete_policy="delete,1h", accept_publish=False)


def test_properties_and_stamps_are_written_in_the_originals_order() -> None:
    assert list(envelope.props(BUILT_IN_PROPS)) == [
        "numTopicStores", "numPartitions", "unflushThreshold", "unflushInterval", "unflushDataHold",
        "memCacheMsgSizeInMB", "memCacheMsgCntInK", "memCacheFlushIntvl", "acceptPublish", "acceptSubscribe",
        "deletePolicy", "dataStoreType", "dataPath",
    ]  # fmt: skip
    assert list(envelope.props(TopicProps(durability=Durability.DISK)))[-1] == "durability", "only where it was said"
    assert envelope.props(TopicProps())["numPartitions"] == -2
    assert envelope.base(Stamp("a", 0, "b", 0, 3, 4)) == {
        "dataVersionId": 3, "serialId": 4, "createUser": "a", "createDate": "", "modifyUser": "b", "modifyDate": "",
    }  # fmt: skip


def test_the_undefined_number_of_answers_may_be_given_back() -> None:
    assert Int(0, or_undefined=True).parse("-2") is None
    assert Int(0, or_undefined=True).parse("0") == 0
    with pytest.raises(BadValueError, match="-2"):
        Int(0).parse("-2")


def test_a_long_list_is_looked_into_without_a_search() -> None:
    found = ListOf(Int()).parse("3,1,2")
    assert (*found,) == (1, 2, 3)
    assert (2 in found, 4 in found, "2" in found) == (True, False, False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[{"a":1,' + ",".join(f'"{number}":1' for number in range(50_000)) + ',"z":1,"z":2}]', "the key 'z' twice"),
        (json.dumps([{f"a{number}": 1} for number in range(129)]), "129 different keys: .* 128 in all"),
        (json.dumps([{str(number): 1 for number in range(129)}]), "129 different keys"),
        (f'[{{"a":{"9" * 5000}}}]', "a number has 5,000 characters, at most 20"),
    ],
)
def test_a_set_is_bounded_in_keys_and_numbers(text: str, reason: str) -> None:
    with pytest.raises(BadValueError, match=reason):
        JsonSet().parse(text)


def test_a_misspelt_key_is_compared_once_however_often_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def get_close_matches(word: str, *_: object) -> list[str]:
        compared.append(word)
        return []

    monkeypatch.setattr("difflib.get_close_matches", get_close_matches)
    objects = [{"topicName": f"t{number}", "hcaErVeryOwn": 1} for number in range(100)]
    found = read_args(
        (json_set("topicJsonSet", Param("topicName", TOPIC)),), {"topicJsonSet": json.dumps(objects)}, now_ms=0
    )
    assert len(found.items("topicJsonSet")) == 100
    assert compared == ["hcaErVeryOwn"]


def test_a_topics_number_may_be_none_as_answers_write_it() -> None:
    assert (NameId().parse("-2"), NameId().parse("7")) == (-2, 7)
    with pytest.raises(BadValueError, match="at least 0"):
        NameId().parse("-1")
