"""`canal-json`: `{"type": "UPDATE", "database": .., "table": .., "es": ms, "data": [{..}], "old": [{..}]}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pytubemq.decode.formats.changes import (
    DELETE,
    INSERT,
    UPDATE,
    Change,
    ChangeError,
    ChangesFormat,
    text_of,
    time_of,
)
from pytubemq.decode.rejection import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytubemq.decode.columns import Column
    from pytubemq.decode.format_options import OptionValues

_OPS: Final = {"INSERT": INSERT, "UPDATE": UPDATE, "DELETE": DELETE}


class CanalFormat(ChangesFormat):
    """A row for each entry of `data`; of a delete the row that was."""

    def __init__(self, columns: tuple[Column, ...], values: OptionValues) -> None:
        self._reject_ddl = values.text("ddl") == "reject"
        super().__init__(columns, values, self._changes, epoch_days=False)

    def _changes(self, message: Any) -> Iterator[Change]:
        if not isinstance(message, dict) or "type" not in message:
            raise ChangeError("not a change of Canal: there is no field type")
        kind = message["type"]
        op = _OPS.get(kind.upper()) if isinstance(kind, str) else None
        if message.get("isDdl") is True or (op is None and isinstance(kind, str)):
            if self._reject_ddl:
                raise ChangeError(f"type {shown(kind)} changes a table, not rows")
            return
        rows, old = message.get("data"), message.get("old")
        if op is None or not isinstance(rows, list):
            raise ChangeError("not a change of Canal: data is not a list of rows")
        for at, row in enumerate(rows):
            if not isinstance(row, dict):
                raise ChangeError(f"entry {at} of data is not a row")
            yield Change(
                op,
                row,
                time_of(message.get("es")),
                text_of(message.get("database")),
                text_of(message.get("table")),
                old[at] if isinstance(old, list) and at < len(old) else row if op == DELETE else None,
            )
