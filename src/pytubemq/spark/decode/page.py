"""The page docs/reference/decode-formats.md, made from the table of formats."""

from __future__ import annotations

from typing import Final

from pytubemq.spark.decode.table import FORMATS, Format, Option, Takes

_HEAD: Final = """\
# What is decoded: every format and its options

Written by `scripts/write_spark_pages.py` from the table that decoding itself goes by.
How it is used, and what becomes of a record that cannot be decoded: [Decode messages](../how-to/decode.md).

As options of `format("tubemq")` each is written `decode.<option>`; in a pipeline file and in Python the name alone.
Names are the same in upper and lower case. An option that a format does not have is refused, with the nearest one.

A column may be `BOOLEAN`, `TINYINT`, `SMALLINT`, `INT`, `BIGINT`, `FLOAT`, `DOUBLE`, `DECIMAL(p,s)`, `STRING`,
`BINARY`, `DATE`, `TIMESTAMP`, `TIMESTAMP_NTZ`, and in json, avro, canal-json and debezium-json also
`ARRAY<..>`, `MAP<..>` and `STRUCT<..>`. `NOT NULL` rejects the records that have nothing there.
"""


def page() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD]
    for each in FORMATS.values():
        parts.append(f"\n## {each.name}\n\n{_about(each)}\n")
        parts.append("\n| option | default | takes | what it does |\n| --- | --- | --- | --- |\n")
        parts += [_row(option) for option in each.options]
    return "".join(parts)


def _about(each: Format) -> str:
    text = each.meaning[0].upper() + each.meaning[1:] + "."
    if each.needs_schema:
        return f"{text} Needs a schema."
    return text


def _row(option: Option) -> str:
    default = "not set" if option.default is None else f"`{option.default}`" if option.default.strip() else "empty"
    takes = ", ".join(f"`{word}`" for word in option.words) if option.takes is Takes.WORD else option.takes.value
    cells = (f"`{option.name}`", default, takes, option.meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
