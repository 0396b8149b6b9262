"""The flights as messages and as a table."""

from __future__ import annotations

import itertools
import json

from pytubemq.demo.data import ROWS, messages, source_table


def test_both_readings_agree_on_every_value_of_the_first_rows() -> None:
    rows = 2_000
    table = source_table(rows).to_pylist()
    for message, row in zip(messages(rows), table, strict=True):
        flight = json.loads(message.body)
        assert flight.pop("time_hour") == row["time_hour"].strftime("%Y-%m-%dT%H:%M:%SZ")
        assert message.departure == row.pop("time_hour").strftime("%Y%m%d%H%M")
        assert message.carrier == row["carrier"]
        assert flight == row


def test_all_flights_are_there() -> None:
    assert source_table(ROWS + 1).num_rows == ROWS


def test_rows_may_be_fewer() -> None:
    assert len(list(messages(3))) == 3
    assert [message.carrier for message in itertools.islice(messages(ROWS), 3)] == ["UA", "UA", "AA"]
