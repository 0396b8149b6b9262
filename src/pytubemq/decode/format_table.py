"""The formats and their options, as one table: what decoding, `pipeline lint` and the reference page read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from pytubemq.model.limits import MAX_DECODED_MESSAGE_BYTES, MAX_RECORDS_PER_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Mapping


class Takes(Enum):
    """The kinds of values that an option takes."""

    TEXT = "a text"
    CHARACTER = "one character, or \\t, \\n, \\r, \\0, \\\\ or \\u and four hex digits"
    FLAG = "true or false"
    COUNT = "a number, at least 1"
    CHARSET = "a charset that Python knows"
    ZONE = "an IANA name, as in UTC or Asia/Shanghai"
    WORD = "one of the words named"
    NAMES = "names separated by commas"


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a format. `default` is text as a user would write it; None is "not set"."""

    name: str
    takes: Takes
    default: str | None
    meaning: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its options, and True in `inner` if it may be inside InLongMsg."""

    name: str
    meaning: str
    options: tuple[Option, ...]
    needs_schema: bool
    inner: bool = True


_CHARSET: Final = Option(
    "charset", Takes.CHARSET, "UTF-8", "the charset of the text; a record with other bytes is rejected"
)
_LINES: Final = Option(
    "lineDelimiter", Takes.CHARACTER, None, "divides a message into records; not set: a message is one record"
)
_NULL: Final = Option("nullLiteral", Takes.TEXT, None, "a field of exactly this text is null")
_IGNORE_ERRORS: Final = Option(
    "ignoreErrors", Takes.FLAG, "false", "a field that does not fit its type is null, instead of rejecting its record"
)
_ZONE: Final = Option("timeZone", Takes.ZONE, "UTC", "the zone of times that name none")
_TIME_FORMAT: Final = Option(
    "timestampFormat",
    Takes.TEXT,
    "iso",
    "the format of times: iso (2024-01-31 10:00:00.5, T instead of the space, an offset or Z at the end), seconds,"
    " millis or micros since 1970, or a pattern with % as strptime takes it",
)
_ESCAPE: Final = Option("escapeChar", Takes.CHARACTER, None, "takes the next character as it is")
_QUOTE: Final = Option(
    "quoteChar", Takes.CHARACTER, None, "encloses a field that contains delimiters; two in a row inside mean one"
)
_MISSING: Final = Option(
    "failOnMissingField", Takes.FLAG, "false", "a record without one of the columns is rejected; else it is null there"
)
_METADATA: Final = "columns beside the row's: _op (insert, update, delete), _ts, _database, _table, _before (JSON)"
_INCLUDES: Final = (
    Option("databaseInclude", Takes.TEXT, None, "a regular expression; changes of other databases are left out"),
    Option("tableInclude", Takes.TEXT, None, "a regular expression; changes of other tables are left out"),
)
_CAST: Final = "a text is read as the column's type where JSON has it in quotes"

FORMATS: Final[Mapping[str, Format]] = {
    each.name: each
    for each in (
        Format(
            "raw",
            "the message as it is, in one column: `value BINARY`, or the one column of the schema",
            (_CHARSET, _LINES),
            needs_schema=False,
        ),
        Format(
            "csv",
            "fields by position",
            (
                Option("fieldDelimiter", Takes.CHARACTER, ",", "the delimiter between fields"),
                _LINES,
                _ESCAPE,
                _QUOTE,
                _NULL,
                _CHARSET,
                _IGNORE_ERRORS,
                Option("deleteHeadDelimiter", Takes.FLAG, "false", "a delimiter at the record's start is dropped"),
                Option("ignoreTrailingUnmappable", Takes.FLAG, "false", "fields beyond the columns are dropped"),
                Option("insertNullsForMissingColumns", Takes.FLAG, "false", "columns beyond the fields are null"),
                Option("emptyStringAsNull", Takes.FLAG, "false", "an empty field is null in text columns as well"),
                _TIME_FORMAT,
                _ZONE,
            ),
            needs_schema=True,
        ),
        Format(
            "kv",
            "fields by name, `id=1&name=x`",
            (
                Option("entryDelimiter", Takes.CHARACTER, "&", "the delimiter between fields"),
                Option("kvDelimiter", Takes.CHARACTER, "=", "the delimiter between a name and its value"),
                _LINES,
                _ESCAPE,
                _QUOTE,
                _NULL,
                _CHARSET,
                _IGNORE_ERRORS,
                Option("emptyStringAsNull", Takes.FLAG, "false", "an empty field is null in text columns as well"),
                _MISSING,
                _TIME_FORMAT,
                _ZONE,
            ),
            needs_schema=True,
        ),
        Format(
            "json",
            "one JSON object, fields by name",
            (
                _LINES,
                _CHARSET,
                _IGNORE_ERRORS,
                _MISSING,
                Option("castStrings", Takes.FLAG, "false", _CAST),
                _TIME_FORMAT,
                _ZONE,
            ),
            needs_schema=True,
        ),
        Format(
            "avro",
            "an Avro record without a file's header",
            (
                Option("avroSchema", Takes.TEXT, None, "the writer's schema, as JSON; several in a JSON list of them"),
                Option(
                    "encoding",
                    Takes.WORD,
                    "plain",
                    "plain datum, or single-object (C3 01 and the schema's fingerprint first)",
                    ("plain", "single-object"),
                ),
                _IGNORE_ERRORS,
            ),
            needs_schema=False,
        ),
        Format(
            "canal-json",
            "changes of a database as Canal writes them: one row for each in `data`",
            (
                Option("metadata", Takes.NAMES, "_op", _METADATA),
                *_INCLUDES,
                Option(
                    "ddl", Takes.WORD, "skip", "the treatment of changes of tables rather than rows", ("skip", "reject")
                ),
                _CHARSET,
                _IGNORE_ERRORS,
                _MISSING,
                Option("castStrings", Takes.FLAG, "true", _CAST),
                _TIME_FORMAT,
                _ZONE,
            ),
            needs_schema=True,
        ),
        Format(
            "debezium-json",
            "changes of a database as Debezium writes them, with or without the `schema` envelope: `after`, for a"
            " delete `before`",
            (
                Option("metadata", Takes.NAMES, "_op", _METADATA),
                *_INCLUDES,
                _CHARSET,
                _IGNORE_ERRORS,
                _MISSING,
                Option("castStrings", Takes.FLAG, "false", _CAST),
                Option(
                    "timestampFormat",
                    Takes.TEXT,
                    "millis",
                    "the unit of times written as numbers; a text is always read as iso, unless this is a pattern",
                ),
                _ZONE,
            ),
            needs_schema=True,
        ),
        Format(
            "inlong-msg",
            "InLongMsg, versions 0 to 4 and the protobuf form; `inner` names the format of the records inside",
            (
                Option(
                    "wrap",
                    Takes.WORD,
                    "auto",
                    "the form: auto (the attribute `version` or `msgEnType`, else the bytes), inlong (0 to 4) or pb",
                    ("auto", "inlong", "pb"),
                ),
                Option(
                    "decompress",
                    Takes.WORD,
                    "auto",
                    "compression of the protobuf form: auto (attribute `compressType`, else gzip if the bytes say so)",
                    ("auto", "none", "gzip", "snappy"),
                ),
                Option(
                    "timeColumn", Takes.TEXT, "inlongmsg_time", "the column of the record's time; empty: no such column"
                ),
                Option(
                    "attributesColumn",
                    Takes.TEXT,
                    "inlongmsg_attributes",
                    "the column of its attributes; empty: no such column",
                ),
                Option(
                    "retainPredefinedField",
                    Takes.FLAG,
                    "true",
                    "values of attributes named `__addcol...` are the first columns (csv, kv)",
                ),
                Option(
                    "requireAttributes",
                    Takes.FLAG,
                    "false",
                    "records without `streamId` (or `tid`) or without a time are rejected, as InLong Sort does",
                ),
                Option(
                    "maxMessageBytes",
                    Takes.COUNT,
                    str(MAX_DECODED_MESSAGE_BYTES),
                    "the largest message after decompression; a larger one is rejected",
                ),
                Option(
                    "maxRecords",
                    Takes.COUNT,
                    str(MAX_RECORDS_PER_MESSAGE),
                    "the most records in one message; one with more is rejected",
                ),
                _ZONE,
            ),
            needs_schema=False,
            inner=False,
        ),
    )
}
"""Every format by name."""
