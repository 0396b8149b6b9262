"""The columns that a sink names, against those that its rows have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytubemq.errors import ConfigError
from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.pipelines.file.model import Sink


class NoColumn(NamedTuple):
    """A column that a sink names and no row has."""

    key: str
    """Of the sink: `partition_by[0]`."""
    message: str
    hint: str


class NoColumnError(ConfigError):
    """A sink names columns that no row has; `sink` is its name, `columns` are all of them."""

    def __init__(self, sink: str, columns: Sequence[NoColumn]) -> None:
        said = "; ".join(f"{column.key}: {column.message}" for column in columns)
        super().__init__(f"sink {sink}: {said}", hint=columns[0].hint)
        self.sink = sink
        self.columns = tuple(columns)


def check_columns(sink: Sink, columns: Sequence[str]) -> None:
    """Refuse `partition_by` and `keys` that no row has.

    Args:
        sink: which names columns.
        columns: of its rows; Spark takes upper and lower case for the same.

    Raises:
        NoColumnError: naming each.
    """
    there = {name.lower() for name in columns}
    named = {f"partition_by[{at}]": name for at, name in enumerate(sink.partition_by)}
    named |= {f"keys[{at}]": name for at, name in enumerate(sink.keys)}
    lacking = []
    for key, name in named.items():
        if name.lower() not in there:
            near = suggest(name, columns)
            hint = f"did you mean {near}?" if near else f"there are {', '.join(columns)}"
            lacking.append(NoColumn(key, f"no row has the column {name}", hint))
    if lacking:
        raise NoColumnError(sink.name, lacking)
