"""A session of an administrator, recorded from the Java Master, asked of ours: same codes, same fields, same kinds.

The texts of the recorded answers were left out; ours are our own. What may differ stands in `DIFFERS` with its reason.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.scenario.webapi.house import TOKEN, house

pytestmark = pytest.mark.anyio

RECORDED = Path(__file__).parents[2] / "vectors" / "webapi-master.jsonl"
IDENTITY = ("brokerId", "topicName", "groupName")
# Never the same on two machines, or at two times.
DIFFERS = {
    "serialId": "a clock",
    "createDate": "a clock",
    "modifyDate": "a clock",
    "brokerIp": "the original leaves it out of many outcomes, or writes null",
    "disableCsmRsn": "the original writes a sentence of its own",
    "dataVersionId": "of a record that made itself: 0 there, -2 here as for every other",
}


def same(recorded: Any, ours: Any, where: str) -> None:
    """Same fields in the same order, same values but where they must differ."""
    if isinstance(recorded, dict):
        assert list(recorded) == list(ours), where
        for name, value in recorded.items():
            if name in DIFFERS or name in ("errMsg", "errInfo"):
                assert type(ours[name]) is type(value), f"{where}.{name}"
            else:
                same(value, ours[name], f"{where}.{name}")
    elif isinstance(recorded, list):
        assert len(recorded) == len(ours), where
        for index, (one, other) in enumerate(zip(by_identity(recorded), by_identity(ours), strict=True)):
            same(one, other, f"{where}[{index}]")
    else:
        assert (type(recorded), recorded) == (type(ours), ours), where


def by_identity(found: list[Any]) -> list[Any]:
    """The original's order is that of its hash tables."""
    return sorted(found, key=lambda one: [str(one.get(n)) for n in IDENTITY] if isinstance(one, dict) else [str(one)])


async def test_the_same_session_has_the_same_answers() -> None:
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    differences = []
    async with house() as here:
        for number, line in enumerate(lines):
            answer = await here.client.get(
                "/webapi.htm", params={"method": line["method"], "confModAuthToken": TOKEN, **line["params"]}
            )
            try:
                if line["answer"] is not None:  # else it only prepares what comes next
                    same(line["answer"], answer.json(), "")
            except AssertionError as error:
                differences.append(f"{number} {line['method']} {line['params']}\n{error}\n{answer.json()}")
    assert not differences, "\n\n".join(differences)
