"""InLongMsg between the official Java class and ours, both ways, every version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytubemq.decode.inlong.attributes import parse_attributes
from pytubemq.decode.inlong.encode import binary_message, encode_inlong, encode_inlong_v3, encode_inlong_v4
from pytubemq.decode.inlong.group import Bounds
from pytubemq.decode.inlong.versions import parse, version_of
from pytubemq.model.limits import MAX_DECODED_MESSAGE_BYTES, MAX_RECORD_ATTRIBUTE_BYTES, MAX_RECORDS_PER_MESSAGE
from tests.spark.decode.java import InLongClass

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.spark

BOUNDS = Bounds(MAX_DECODED_MESSAGE_BYTES, MAX_RECORDS_PER_MESSAGE, MAX_RECORD_ATTRIBUTE_BYTES)
ONE = "groupId=g&streamId=s&dt=1700000000000&note=\u65e5\u672c"
TWO = "groupId=g&streamId=other&t=202311142213"
RECORDS = [b"1,one,2.5", b"", b"2,\x00\xff,-1", "3,\U0001f600,".encode(), b"x" * 5000]
OWN = [(b"1,one", "k=v&n=1"), (b"2,two", "k=v&n=1"), (b"3,three", "k=w")]


@pytest.fixture(scope="module")
def official() -> Iterator[InLongClass]:
    running = InLongClass()
    yield running
    running.close()


def ours(message: bytes) -> list[tuple[dict[str, str], list[bytes]]]:
    return [(dict(group.attributes), group.records) for group in parse(message, BOUNDS)]


def theirs(groups: list[tuple[str, list[bytes]]]) -> list[tuple[dict[str, str], list[bytes]]]:
    return [(parse_attributes(text), records) for text, records in groups]


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("version", [1, 2])
def test_what_the_official_class_writes_is_read(official: InLongClass, version: int, compress: bool) -> None:
    message = official.make(version, compress, [(ONE, RECORDS), (TWO, RECORDS[:2])])
    assert message is not None
    assert version_of(message) == version
    assert ours(message) == [(parse_attributes(ONE), RECORDS), (parse_attributes(TWO), RECORDS[:2])]
    assert ours(message) == theirs(official.parse(message)[2])


@pytest.mark.parametrize("compress", [True, False])
def test_version_3_of_the_official_class_is_read(official: InLongClass, compress: bool) -> None:
    message = official.make_v3(compress, ONE, OWN)
    assert message is not None
    assert version_of(message) == 3
    common = parse_attributes(ONE)
    assert ours(message) == [
        ({**common, "k": "v", "n": "1"}, [b"1,one", b"2,two"]),
        ({**common, "k": "w"}, [b"3,three"]),
    ]
    assert ours(message) == theirs(official.parse(message)[2])


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("numbers", [None, (7, 9)])
def test_version_4_of_the_official_class_is_read(
    official: InLongClass, compress: bool, own: bool, numbers: tuple[int, int] | None
) -> None:
    own_attributes = [parse_attributes(text) for _, text in OWN] if own else None
    binary = binary_message(
        {"streamId": "s", "p": "q"},
        [record for record, _ in OWN],
        own=own_attributes,
        numbers=numbers,
        time_s=1_700_000_000,
    )
    message = official.wrap(compress, binary)
    assert message is not None, "the official class refuses our binary message"
    assert version_of(message) == 4
    assert sorted(map(str, ours(message))) == sorted(map(str, theirs_in_our_order(ours(message), official, message)))
    assert [record for _, records in ours(message) for record in records] == [record for record, _ in OWN]
    first = ours(message)[0][0]
    assert first["dt"] == "1700000000000"
    assert (first["streamId"], first.get("groupId")) == (("s", None) if numbers is None else ("9", "7"))


def theirs_in_our_order(
    found: list[tuple[dict[str, str], list[bytes]]], official: InLongClass, message: bytes
) -> list[tuple[dict[str, str], list[bytes]]]:
    """The official class keeps version 4's attributes in a hash map: the same, in our order of names."""
    read = theirs(official.parse(message)[2])
    assert len(read) == len(found)
    names = list(found[0][0])
    return [({name: each[name] for name in sorted(each, key=names.index)}, records) for each, records in read]


def test_version_0_is_not_written_by_the_official_class_but_read(official: InLongClass) -> None:
    assert official.make(0, True, [(ONE, RECORDS)]) is None
    message = encode_inlong([(parse_attributes(ONE), RECORDS)], version=0, created_ms=0)
    version, _, groups = official.parse(message)
    assert (version, groups) == (0, [(ONE, RECORDS)])


@pytest.mark.parametrize("compress", [True, False])
def test_what_is_encoded_is_read_by_the_official_class(official: InLongClass, compress: bool) -> None:
    attributes = parse_attributes(ONE)
    for version in (0, 1, 2):
        message = encode_inlong([(attributes, RECORDS)], version=version, compress=compress, created_ms=1234)
        assert official.parse(message) == (version, 1234 if version else -1, [(ONE, RECORDS)])
    own = [(record, parse_attributes(text)) for record, text in OWN]
    message = encode_inlong_v3([(attributes, own)], compress=compress, created_ms=1234)
    assert theirs(official.parse(message)[2]) == ours(message)
    message = encode_inlong_v4(attributes, RECORDS, time_s=5, compress=compress)
    version, created_ms, groups = official.parse(message)
    assert (version, created_ms, groups[0][1]) == (4, 5000, RECORDS)
    assert parse_attributes(groups[0][0]) == ours(message)[0][0]


@pytest.mark.parametrize("version", [1, 2])
def test_what_both_write_of_the_same_is_the_same_to_the_byte(official: InLongClass, version: int) -> None:
    made = encode_inlong([(parse_attributes(ONE), RECORDS)], version=version, compress=False, created_ms=1700000000123)
    assert official.make(version, False, [(ONE, RECORDS)]) == made
