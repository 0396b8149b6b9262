"""`debezium-json`: `{"op": "u", "before": {..}, "after": {..}, "source": {..}, "ts_ms": ..}`, in `payload` or not."""

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

_OPS: Final = {"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE}
"""`r` is a row read by a snapshot."""


class DebeziumFormat(ChangesFormat):
    """A row for each change: `after`, for a delete `before`."""

    def __init__(self, columns: tuple[Column, ...], values: OptionValues) -> None:
        super().__init__(columns, values, self._changes, epoch_days=True)

    def _changes(self, message: Any) -> Iterator[Change]:
        if isinstance(message, dict) and "payload" in message and "op" not in message:
            message = message["payload"]
        if message is None:
            return  # the empty message after a delete, in its envelope
        if not isinstance(message, dict) or "op" not in message:
            raise ChangeError("not a change of Debezium: there is no field op")
        kind = message["op"]
        op = _OPS.get(kind) if isinstance(kind, str) else None
        if op is None:
            raise ChangeError(f"op {shown(kind)} is not a change of a row")
        before, after = message.get("before"), message.get("after")
        row = before if op == DELETE else after
        if not isinstance(row, dict):
            missing = "before" if op == DELETE else "after"
            raise ChangeError(f"op {shown(kind)} without {missing}")
        source = message.get("source")
        source = source if isinstance(source, dict) else {}
        at = time_of(source.get("ts_ms"))
        yield Change(
            op,
            row,
            time_of(message.get("ts_ms")) if at is None else at,
            text_of(source.get("db")),
            text_of(source.get("table")),
            before,
        )
