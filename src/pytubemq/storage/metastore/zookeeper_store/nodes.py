"""The nodes of a metadata store in ZooKeeper: their names and their contents.

One node for each record, `records/KIND/=KEY`, with the record's columns and its checksum as JSON, so that a change is
as small as what it changes. `state` has the totals of all of them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pytubemq.storage.metastore.checks import Totals, check_of_row
from pytubemq.storage.metastore.reading import sound_record
from pytubemq.storage.metastore.tables import TABLE_OF, TABLES, key_of, row_of

if TYPE_CHECKING:
    from pytubemq.model.records import Record
    from pytubemq.storage.metastore.tables import Table

LAYOUT: Final = 1
"""The version of all this, in the node `layout`."""
NodeName = tuple[str, str]
"""The name of a record's kind, and the name of its node."""


def first_nodes() -> dict[str, bytes]:
    """Return the nodes of an empty store below its root, parents first."""
    lease = {"epoch": 0, "holder": "", "renewals": 0, "lease_s": 0.0}
    return {
        "layout": str(LAYOUT).encode(),
        "epoch": b"",
        "lease": json.dumps(lease).encode(),
        "state": state_content(Totals(), 0),
        "records": b"",
        **{f"records/{table.name}": b"" for table in TABLES},
    }


def node_name(record: Record) -> NodeName:
    """Return the name of the node of a record."""
    return name_of_key(TABLE_OF[type(record)].name, *key_of(record))


def name_of_key(table: str, *key: object) -> NodeName:
    """Return the name of the node of the record with a key."""
    # With a sign first, as ZooKeeper takes neither an empty name nor one of dots alone.
    return table, "=" + ":".join(quote(str(part), safe="") for part in key)


def record_content(record: Record) -> tuple[bytes, int]:
    """Return the content of a record's node, and its checksum."""
    row = row_of(record)
    check = check_of_row(TABLE_OF[type(record)].name, row)
    return json.dumps([*row, check], separators=(",", ":")).encode(), check


def read_record(table: Table, name: str, content: bytes) -> tuple[Any, int]:
    """Return the record that a node has, None if it is damaged, and the checksum that is written in it."""
    try:
        *row, check = json.loads(content)
        record = sound_record(table, row, check) if len(row) == len(table.columns) else None
    except (ValueError, TypeError):
        return None, 0
    if record is not None and node_name(record) != (table.name, name):  # another record's content
        record = None
    return record, check if isinstance(check, int) else 0


def state_content(totals: Totals, last_serial_id: int) -> bytes:
    """Return the content of the node `state`."""
    values = [totals.generation, totals.records, totals.total, last_serial_id, totals.check(last_serial_id)]
    return json.dumps(values).encode()


def read_state(content: bytes) -> tuple[Totals, int] | None:
    """Return the totals and the largest serial id that were written; None if they are damaged."""
    try:
        generation, records, total, last_serial_id, check = json.loads(content)
    except (ValueError, TypeError):
        return None
    if not all(isinstance(value, int) for value in (generation, records, total, last_serial_id)):
        return None
    totals = Totals(generation, records, total)
    return (totals, last_serial_id) if check == totals.check(last_serial_id) else None
