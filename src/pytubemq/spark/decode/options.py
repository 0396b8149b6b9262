"""The formats and their options: the one table that decoding, `pipeline lint` and the reference page read.

The invariant: what is not in the table is refused, with the nearest name; values are read here and nowhere else.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from pytubemq.errors import ConfigError
from pytubemq.model.limits import (
    MAX_DECODED_MESSAGE_BYTES,
    MAX_RECORDS_PER_MESSAGE,
)
from pytubemq.spark.decode.near import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping


class Takes(Enum):
    """What an option's value may be."""

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
    """A format: its options, and whether it may stand inside InLongMsg."""

    name: str
    meaning: str
    options: tuple[Option, ...]
    needs_schema: bool
    inner: bool = True


_CHARSET: Final = Option("charset", Takes.CHARSET, "UTF-8", "of the text; bytes that are not of it reject the record")
_LINES: Final = Option(
    "lineDelimiter", Takes.CHARACTER, None, "cuts a message into records; not set: a message is one record"
)
_NULL: Final = Option("nullLiteral", Takes.TEXT, None, "a field of exactly this text is null")
_IGNORE_ERRORS: Final = Option(
    "ignoreErrors", Takes.FLAG, "false", "a field that does not fit its type is null, instead of rejecting its record"
)
_ZONE: Final = Option("timeZone", Takes.ZONE, "UTC", "of times that name no zone")
_TIME_FORMAT: Final = Option(
    "timestampFormat",
    Takes.TEXT,
    "iso",
    "of times: iso (2024-01-31 10:00:00.5, T instead of the space, an offset or Z at the end), seconds, millis or"
    " micros since 1970, or a pattern with % as strptime takes it",
)
_ESCAPE: Final = Option("escapeChar", Takes.CHARACTER, None, "takes the next character as it is")
_QUOTE: Final = Option(
    "quoteChar", Takes.CHARACTER, None, "around a field that holds delimiters; two of it inside are one"
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
                Option("fieldDelimiter", Takes.CHARACTER, ",", "between fields"),
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
                Option("entryDelimiter", Takes.CHARACTER, "&", "between fields"),
                Option("kvDelimiter", Takes.CHARACTER, "=", "between a name and its value"),
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
                Option("ddl", Takes.WORD, "skip", "changes of tables, not of rows", ("skip", "reject")),
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
                    "of times written as numbers; a text is read as iso, whatever this says, but for a pattern",
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
                    "auto (the attribute `version` or `msgEnType`, else the bytes), inlong (0 to 4) or pb",
                    ("auto", "inlong", "pb"),
                ),
                Option(
                    "decompress",
                    Takes.WORD,
                    "auto",
                    "of the protobuf form: auto (the attribute `compressType`, else gzip where the bytes say so)",
                    ("auto", "none", "gzip", "snappy"),
                ),
                Option("timeColumn", Takes.TEXT, "inlongmsg_time", "the record's time; empty: no such column"),
                Option("attributesColumn", Takes.TEXT, "inlongmsg_attributes", "its attributes; empty: no such column"),
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
                    "of a message after decompression; a larger one is rejected",
                ),
                Option(
                    "maxRecords",
                    Takes.COUNT,
                    str(MAX_RECORDS_PER_MESSAGE),
                    "in one message; one with more is rejected",
                ),
                _ZONE,
            ),
            needs_schema=False,
            inner=False,
        ),
    )
}
"""Every format by name."""

_ESCAPES: Final = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


class Values:
    """The options of one format as they were given, read and checked; what was not given has its default."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str | bool | int | None]) -> None:
        self._values = dict(values)

    def text(self, name: str) -> str:
        """The text, which the option has by default or by the user."""
        value = self._values[name]
        assert isinstance(value, str)
        return value

    def text_or_none(self, name: str) -> str | None:
        """The text, or None where nothing was set or the format has no such option."""
        value = self._values.get(name)
        assert value is None or isinstance(value, str)
        return value

    def flag(self, name: str) -> bool:
        """Whether it is set; False where the format has no such option."""
        return self._values.get(name) is True

    def count(self, name: str) -> int:
        """The number."""
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """The names of a list."""
        return tuple(part.strip() for part in self.text(name).split(",") if part.strip())


@dataclass(frozen=True, slots=True)
class Chosen:
    """A format with its options; `inner` is what stands inside of InLongMsg."""

    format: Format
    values: Values
    inner: Chosen | None = None


def format_of(name: str, *, setting: str = "decode") -> Format:
    """The format of that name.

    Raises:
        ConfigError: there is none; the hint has the nearest.
    """
    found = FORMATS.get(name.strip().lower())
    if found is None:
        close = nearest(name, FORMATS)
        hint = f"did you mean {close}?" if close else f"the formats are {', '.join(FORMATS)}"
        raise ConfigError(f"{setting} = {name!r} is no format", hint=hint)
    return found


def option_names(format_name: str, inner: str | None = None) -> tuple[str, ...]:
    """The names that the options of a format, and of the one inside it, may have."""
    names = [option.name for option in format_of(format_name).options]
    if inner is not None:
        names += [option.name for option in format_of(inner, setting="decode.inner").options]
    return tuple(dict.fromkeys(names))


def choose(format_name: str, options: Mapping[str, str], *, inner: str | None, has_schema: bool) -> Chosen:
    """Check a format and its options; names of options may be in any case, as Spark hands them on.

    Raises:
        ConfigError: a format, an option or a value is not known, or two contradict each other.
    """
    outer = format_of(format_name)
    if outer.inner and inner is not None:
        raise ConfigError(
            f"decode.inner = {inner!r} has no meaning with the format {outer.name}", hint="only inlong-msg has records"
        )
    formats = [outer]
    if not outer.inner:
        formats.append(format_of(inner or "raw", setting="decode.inner"))
        if not formats[1].inner:
            raise ConfigError("inlong-msg cannot stand inside inlong-msg", hint="decode.inner names another format")
    if formats[-1].needs_schema and not has_schema:
        raise ConfigError(
            f"the format {formats[-1].name} needs the columns",
            hint='as in decode.schema = "id BIGINT, at TIMESTAMP"',
        )
    given = _by_known_name(formats, options)
    chosen = [Chosen(each, _values(each, given)) for each in formats]
    for each in chosen:
        _check_delimiters(each)
    return chosen[0] if len(chosen) == 1 else Chosen(chosen[0].format, chosen[0].values, chosen[1])


def _by_known_name(formats: list[Format], options: Mapping[str, str]) -> dict[str, str]:
    known = {option.name.lower(): option.name for each in formats for option in each.options}
    given: dict[str, str] = {}
    for name, value in options.items():
        right = known.get(name.lower())
        if right is None:
            of = " with ".join(each.name for each in formats)
            close = nearest(name, known.values())
            hint = f"did you mean {close}?" if close else f"its options are {', '.join(known.values())}"
            raise ConfigError(f"the format {of} has no option {name!r}", hint=hint)
        if right in given:
            raise ConfigError(
                f"the option {right} is given twice", hint="names of options do not tell upper from lower"
            )
        given[right] = value
    return given


def _values(of: Format, given: Mapping[str, str]) -> Values:
    return Values({option.name: _value(option, given.get(option.name, option.default)) for option in of.options})


def _value(option: Option, text: str | None) -> str | bool | int | None:
    if text is None:
        return None
    match option.takes:
        case Takes.FLAG:
            word = text.strip().lower()
            if word not in ("true", "false"):
                raise _bad(option, text)
            return word == "true"
        case Takes.COUNT:
            if not (text.strip().isascii() and text.strip().isdigit()) or not 1 <= int(text) < 2**31:
                raise _bad(option, text)
            return int(text)
        case Takes.CHARACTER:
            return _character(option, text)
        case Takes.WORD:
            word = text.strip().lower()
            if word not in option.words:
                raise _bad(option, text)
            return word
        case Takes.CHARSET:
            try:
                return codecs.lookup(text.strip()).name
            except (LookupError, ValueError) as error:
                raise _bad(option, text) from error
        case Takes.ZONE:
            try:
                return ZoneInfo(text).key
            except (KeyError, ValueError, OSError) as error:
                raise _bad(option, text) from error
        case _:
            return text


def _character(option: Option, text: str) -> str:
    if len(text) == 1:
        return text
    if text in _ESCAPES:
        return _ESCAPES[text]
    if len(text) == 6 and text.startswith("\\u"):
        try:
            return chr(int(text[2:], 16))
        except ValueError as error:
            raise _bad(option, text) from error
    raise _bad(option, text)


def _bad(option: Option, text: str) -> ConfigError:
    takes = " or ".join(option.words) if option.words else option.takes.value
    return ConfigError(f"option {option.name} = {text!r} is not valid", hint=f"{option.name} takes {takes}")


def _check_delimiters(chosen: Chosen) -> None:
    used: dict[str, str] = {}
    for option in chosen.format.options:
        if option.takes is not Takes.CHARACTER:
            continue
        value = chosen.values.text_or_none(option.name)
        if value is None:
            continue
        if value in used:
            raise ConfigError(
                f"options {used[value]} and {option.name} are both {value!r}", hint="each needs a character of its own"
            )
        used[value] = option.name
