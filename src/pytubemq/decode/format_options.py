"""The options of a format as a user gave them: checked against the table, and read.

The invariant: what is not in the table is refused, with the nearest name; values are read here and nowhere else.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from pytubemq.decode.format_table import FORMATS, Format, Option, Takes
from pytubemq.errors import ConfigError
from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping

_ESCAPES: Final = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}


class OptionValues:
    """The options of one format as they were given, read and checked; what was not given has its default."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str | bool | int | None]) -> None:
        self._values = dict(values)

    def text(self, name: str) -> str:
        """Return the text, which the option has by default or by the user."""
        value = self._values[name]
        assert isinstance(value, str)
        return value

    def text_or_none(self, name: str) -> str | None:
        """Return the text, or None where nothing was set or the format has no such option."""
        value = self._values.get(name)
        assert value is None or isinstance(value, str)
        return value

    def flag(self, name: str) -> bool:
        """True if the option is set; False where the format has no such option."""
        return self._values.get(name) is True

    def count(self, name: str) -> int:
        """Return the number."""
        value = self._values[name]
        assert isinstance(value, int)
        return value

    def names(self, name: str) -> tuple[str, ...]:
        """Return the names of a list."""
        return tuple(part.strip() for part in self.text(name).split(",") if part.strip())


@dataclass(frozen=True, slots=True)
class ChosenFormat:
    """A format with its options; `inner` is the format inside of InLongMsg."""

    format: Format
    values: OptionValues
    inner: ChosenFormat | None = None


def format_of(name: str, *, setting: str = "decode") -> Format:
    """Return the format of that name.

    Raises:
        ConfigError: there is none; the hint has the nearest.
    """
    found = FORMATS.get(name.strip().lower())
    if found is None:
        close = suggest(name, FORMATS)
        hint = f"did you mean {close}?" if close else f"the formats are {', '.join(FORMATS)}"
        raise ConfigError(f"{setting} = {name!r} is not a format", hint=hint)
    return found


def choose(format_name: str, options: Mapping[str, str], *, inner: str | None, has_schema: bool) -> ChosenFormat:
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
            raise ConfigError("inlong-msg cannot be inside inlong-msg", hint="decode.inner names another format")
    if formats[-1].needs_schema and not has_schema:
        raise ConfigError(
            f"the format {formats[-1].name} needs the columns",
            hint='as in decode.schema = "id BIGINT, at TIMESTAMP"',
        )
    given = _by_known_name(formats, options)
    chosen = [ChosenFormat(each, _values(each, given)) for each in formats]
    for each in chosen:
        _check_delimiters(each)
        _check_lines(each)
    return chosen[0] if len(chosen) == 1 else ChosenFormat(chosen[0].format, chosen[0].values, chosen[1])


def _by_known_name(formats: list[Format], options: Mapping[str, str]) -> dict[str, str]:
    known = {option.name.lower(): option.name for each in formats for option in each.options}
    given: dict[str, str] = {}
    for name, value in options.items():
        right = known.get(name.lower())
        if right is None:
            of = " with ".join(each.name for each in formats)
            close = suggest(name, known.values())
            hint = f"did you mean {close}?" if close else f"its options are {', '.join(known.values())}"
            raise ConfigError(f"the format {of} has no option {name!r}", hint=hint)
        if right in given:
            raise ConfigError(f"the option {right} is given twice", hint="case is ignored in names of options")
        given[right] = value
    return given


def _values(of: Format, given: Mapping[str, str]) -> OptionValues:
    return OptionValues({option.name: _value(option, given.get(option.name, option.default)) for option in of.options})


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
            return _charset(option, text)
        case Takes.ZONE:
            try:
                return ZoneInfo(text).key
            except (KeyError, ValueError, OSError) as error:
                raise _bad(option, text) from error
        case _:
            return text


def _charset(option: Option, text: str) -> str:
    try:
        name = codecs.lookup(text.strip()).name
        b"a".decode(name, "replace")  # there are codecs that are no charsets
    except (LookupError, ValueError) as error:
        raise _bad(option, text) from error
    return name


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


def _check_delimiters(chosen: ChosenFormat) -> None:
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


def _check_lines(chosen: ChosenFormat) -> None:
    """Refuse delimiters that could be a part of another character: lines are cut before the text is read."""
    delimiter, charset = chosen.values.text_or_none("lineDelimiter"), chosen.values.text_or_none("charset")
    if delimiter is None or charset in (None, "utf-8", "ascii"):
        return
    try:
        plain = delimiter < " " and "a\n".encode(charset) == b"a\n"
    except (UnicodeError, LookupError):
        plain = False
    if not plain:
        raise ConfigError(
            f"lineDelimiter = {delimiter!r} cannot be found in bytes of the charset {charset}",
            hint="leave it out, use a control character as \\n with a charset that extends ASCII, or use UTF-8",
        )
