"""Records as lines of one text, parsed all together by pyarrow's csv reader.

Only for records that are a line each, whatever is in them: without line feeds, carriage returns or a byte order
mark, and with quotes around whole fields only. Who calls sees to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

if TYPE_CHECKING:
    from collections.abc import Sequence

BREAKS: Final = ("\n", "\r", "\ufeff")
"""Characters that a record must not contain to be one line."""
TEXT: Final[Any] = pa.string()
_TRUE: Final = ["true", "TRUE", "True", "1"]
_FALSE: Final = ["false", "FALSE", "False", "0"]


def joined(texts: Any) -> Any:
    """Join all texts, a line feed after each, to one buffer."""
    lines = pc.binary_join_element_wise(texts, pa.scalar("", TEXT), pa.scalar("\n", TEXT))
    first, last = lines.offset, lines.offset + len(lines)
    if not len(lines):
        return pa.py_buffer(b"")
    offsets = pa.Array.from_buffers(pa.int32(), last + 1, [None, lines.buffers()[1]])
    start, end = offsets[first].as_py(), offsets[last].as_py()
    return lines.buffers()[2].slice(start, end - start)


def are_lines(lines: Any, count: int, marks: Sequence[str]) -> bool:
    """True if each of `count` joined records is one line, without any of the marks."""
    content = lines.to_pybytes()
    return content.count(b"\n") == count and not any(mark.encode() in content for mark in (*BREAKS[1:], *marks))


def parsed(lines: Any, kinds: Sequence[Any], delimiter: str, quote: str | None, skip: Any) -> list[Any]:
    names = [str(at) for at in range(len(kinds))]
    table = arrow_csv.read_csv(
        pa.BufferReader(lines),
        arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=lines.size + 1),
        arrow_csv.ParseOptions(
            delimiter=delimiter,
            quote_char=quote or False,
            double_quote=quote is not None,
            escape_char=False,
            ignore_empty_lines=False,
            invalid_row_handler=skip,
        ),
        arrow_csv.ConvertOptions(
            column_types=dict(zip(names, kinds, strict=True)),
            null_values=[""],
            strings_can_be_null=False,
            true_values=_TRUE,
            false_values=_FALSE,
            check_utf8=False,
        ),
    )
    return [_whole(column, kind) for column, kind in zip(table.columns, kinds, strict=True)]


def _whole(column: Any, kind: Any) -> Any:
    match column.num_chunks:
        case 0:
            return pa.nulls(0, kind)
        case 1:
            return column.chunk(0)
        case _:
            return pa.concat_arrays(column.chunks)
