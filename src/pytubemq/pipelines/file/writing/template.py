"""Pipeline files to begin with: whole, commented, without a fault, and with a test inside that passes."""

from __future__ import annotations

from typing import Final

from pytubemq.pipelines.file.model import default_state
from pytubemq.pipelines.file.sink_table import sink_kind

TEMPLATE_FORMATS: Final = ("json", "csv", "inlong-msg")

_HEAD: Final = """\
# What goes from a topic to a table. All keys: docs/reference/pipeline-file.md
#   pytubemq pipeline lint {file}       what is wrong with it, and where
#   pytubemq pipeline test {file}       its tests below, without a cluster
#   pytubemq pipeline dry-run {file}    reads ten real messages, writes nothing
#   pytubemq pipeline run {file}
name: {name}
state: {state}                   # its progress: a directory, beside this file unless it is absolute

source:
  # master: 127.0.0.1:8715                 # the current profile's if left out
  topic: {topic}
  start: earliest                          # or latest, group:NAME, 2026-01-31T12:00:00Z, -10m
  limit: {{rows: 200_000, bytes: 64MiB}}     # of one batch, at most
"""

_DECODE: Final = {
    "json": """
decode:
  format: json
  schema: "id BIGINT, at TIMESTAMP, amount DECIMAL(12,2)"
  on_error: dead_letter                    # or drop, fail
""",
    "csv": """
decode:
  format: csv
  schema: "id BIGINT, at TIMESTAMP, amount DECIMAL(12,2)"
  on_error: dead_letter                    # or drop, fail
""",
    "inlong-msg": """
decode:
  format: inlong-msg                       # all its versions, detected automatically
  inner: csv                               # what is inside
  schema: "id BIGINT, at TIMESTAMP, amount DECIMAL(12,2)"
  on_error: dead_letter                    # or drop, fail
""",
}

_STEPS: Final = """
steps:
  # Spark SQL over `input`, earlier steps and tables; or  python: module:function
  - name: paid
    sql: |
      SELECT id, at, amount, date(at) AS day
      FROM input
      WHERE amount > 0
"""

_DEAD_LETTER: Final = """
dead_letter:
  path: tables/{name}_rejected             # or  topic: ...
  max_ratio: 1%                            # of a batch; with more the run fails before it writes
"""

_GOOD: Final = {
    "json": """{"id": 1, "at": "2026-01-01T12:00:00Z", "amount": 5}""",
    "csv": "1,2026-01-01 12:00:00,5",
}
_BAD: Final = "oops"


def template(*, name: str, file: str, topic: str, message: str = "json", sink: str = "parquet") -> str:
    """Return the text of a pipeline file.

    Args:
        name: the pipeline's name.
        file: what the file will be called, for its comments.
        topic: what it reads.
        message: one of `TEMPLATE_FORMATS`.
        sink: a word of the table of sinks.
    """
    kind = sink_kind(sink)
    parts = [
        _HEAD.format(file=file, name=name, state=default_state(name), topic=topic),
        _DECODE[message],
        _STEPS,
        kind.template.format(name=name, packages=", ".join(f'"{one}"' for one in kind.packages)),
        _DEAD_LETTER.format(name=name),
        _tests(message),
    ]
    return "".join(parts)


def _tests(message: str) -> str:
    good = _inlong_message() if message == "inlong-msg" else "'" + _GOOD[message] + "'"
    return f"""
tests:
  - name: a paid order is kept, what is no order is rejected
    given:
      - body: {good}
      - body: {_BAD}
    expect:
      lake: [{{id: 1, day: 2026-01-01}}]
      dead_letter: [{{reason: {_REASONS[message]}}}]
"""


_REASONS: Final = {"json": "decode.json", "csv": "decode.csv", "inlong-msg": "decode.inlong-msg"}


def _inlong_message() -> str:
    """Build a message of version 1 with one record, as base64: magic, time, one attribute group, its record, magic."""
    import base64
    import struct

    attributes = b"groupId=orders&streamId=paid&dt=1767268800000&cnt=1"
    record = _GOOD["csv"].encode()
    block = struct.pack(">i", len(record)) + record
    message = (
        b"\x0f\x01"
        + struct.pack(">qi", 1_767_268_800_000, 1)
        + struct.pack(">H", len(attributes))
        + attributes
        + struct.pack(">ib", len(block) + 1, 0)
        + block
        + b"\x0f\x01"
    )
    return "{base64: " + base64.b64encode(message).decode() + "}"
