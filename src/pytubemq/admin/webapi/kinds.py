"""Kinds of parameter values: their texts, and the values that these become.

The invariant: an accepted value is bounded and of its kind; another is refused with a reason that says what would be
right. The patterns, lengths and ranges are the original's.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote_plus

from pytubemq.core.flow import format_rules, parse_rules
from pytubemq.errors import BadRequestError, FormatError
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import (
    MAX_FILTER_ITEM_CHARS,
    MAX_GROUP_CHARS,
    MAX_TOPIC_CHARS,
    MAX_WEBAPI_ITEMS,
    MAX_WEBAPI_PARAMS,
)
from pytubemq.model.names import check_broker_host
from pytubemq.model.policy import MAX_AGE_S, check_delete_policy
from pytubemq.model.records import ManageStatus
from pytubemq.model.topic import HISTORY_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
DATE_FORMAT = "%Y%m%d%H%M%S"
SHOWN_CHARS = 60
MAX_INT_CHARS = 20

_INT = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_DATE = re.compile(r"[0-9]{14}", re.ASCII)


class BadValueError(Exception):
    """A value that is not of its kind; the text continues `parameter x `."""


class Kind(Protocol):
    """A kind of values; `shape` describes it in the reference."""

    @property
    def shape(self) -> str: ...

    def parse(self, text: str) -> Any:
        """Return the value of a text that is trimmed and not blank. Raises BadValueError."""
        ...


def shown(text: str) -> str:
    """Return a value for an error text: escaped and short."""
    return repr(text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "...")


@dataclass(frozen=True, slots=True)
class Text:
    """Text of at most `longest` characters that matches a pattern; `rule` describes the pattern."""

    longest: int
    pattern: re.Pattern[str] | None = None
    rule: str = "printable characters"

    @property
    def shape(self) -> str:
        return f"{self.rule}, at most {self.longest:,} characters"

    def parse(self, text: str) -> str:
        if len(text) > self.longest:
            raise BadValueError(f"has {len(text):,} characters, at most {self.longest:,} are allowed")
        if not text.isprintable() or (self.pattern is not None and not self.pattern.fullmatch(text)):
            raise BadValueError(f"is {shown(text)}: it must be {self.shape}")
        return text


@dataclass(frozen=True, slots=True)
class Int:
    """A whole number within bounds. With `or_undefined`, -2 means that it is not given, as responses write it."""

    least: int = 0
    most: int = INT32_MAX
    or_undefined: bool = False

    @property
    def shape(self) -> str:
        undefined = f" ({UNDEFINED}: not set)" if self.or_undefined else ""
        return f"a whole number, {self.least} to {self.most}{undefined}"

    def parse(self, text: str) -> int | None:
        if not _INT.fullmatch(text):
            raise BadValueError(f"is {shown(text)}: it must be {self.shape}")
        value = int(text)
        if self.or_undefined and value == UNDEFINED:
            return None
        if value < self.least:
            raise BadValueError(f"is {value}: it must be at least {self.least}")
        if value > self.most:
            raise BadValueError(f"is {value}: it must be at most {self.most}")
        return value


@dataclass(frozen=True, slots=True)
class NameId:
    """The number of a topic; -2 means none, as the original writes it."""

    shape: str = f"a whole number, 0 to {INT32_MAX} ({UNDEFINED}: none)"

    def parse(self, text: str) -> int:
        value = Int(0, or_undefined=True).parse(text)
        return UNDEFINED if value is None else value


@dataclass(frozen=True, slots=True)
class QryPriority:
    """A priority of reads: three digits, the first and the last of them 1, 2 or 3, a 0 between them."""

    shape: str = "101 to 303: a digit 1, 2 or 3, a 0, and again 1, 2 or 3"

    def parse(self, text: str) -> int:
        value = int(Int(101, 303).parse(text) or 0)
        if value % 100 not in (1, 2, 3):
            raise BadValueError(f"is {value}: it must be {self.shape}")
        return value


@dataclass(frozen=True, slots=True)
class Bool:
    """True or false, as a word or a number.

    The original silently takes anything else for the default; here it is refused.
    """

    shape: str = "true or false (or a number, 0 for false)"

    def parse(self, text: str) -> bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        if _INT.fullmatch(text):
            return int(text) != 0
        raise BadValueError(f"is {shown(text)}: it must be {self.shape}")


class Listed(tuple[Any, ...]):
    """Values in their order, with fast membership tests."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = frozenset(values)

    def __contains__(self, value: object) -> bool:
        return value in self._values


@dataclass(frozen=True, slots=True)
class ListOf:
    """Values between commas; blank and duplicate ones are dropped, the others are sorted."""

    item: Kind
    most: int = MAX_WEBAPI_ITEMS

    @property
    def shape(self) -> str:
        return f"list, each {self.item.shape}"

    def parse(self, text: str) -> Listed:
        parts = {part.strip() for part in text.split(",")} - {""}
        if len(parts) > self.most:
            raise BadValueError(f"has {len(parts):,} items, at most {self.most:,} are allowed")
        return Listed(sorted({self.item.parse(part) for part in parts}))


@dataclass(frozen=True, slots=True)
class IPv4:
    """A machine's IPv4 address in dotted form."""

    shape: str = "an IPv4 address such as 10.0.0.7"

    def parse(self, text: str) -> str:
        try:
            return check_broker_host(str(IPv4Address(text)))
        except (ValueError, FormatError):
            raise BadValueError(f"is {shown(text)}: it must be {self.shape}") from None


@dataclass(frozen=True, slots=True)
class Date:
    """A time in the server's zone, 14 digits; becomes ms since 1970."""

    shape: str = "a time as yyyyMMddHHmmss, in the server's time zone"

    def parse(self, text: str) -> int:
        try:
            if not _DATE.fullmatch(text):
                raise ValueError(text)
            return max(0, int(datetime.strptime(text, DATE_FORMAT).astimezone().timestamp() * 1000))
        except (ValueError, OverflowError, OSError):
            raise BadValueError(f"is {shown(text)}: it must be {self.shape}") from None


@dataclass(frozen=True, slots=True)
class DeletePolicy:
    """A retention policy."""

    shape: str = (
        "`delete,<n>` with s, m or h behind it (without: hours), more than 0 and at most 168 h; ours also take a "
        "partition's size instead or behind it (`delete,72h,10GB`), and `keep`"
    )

    def parse(self, text: str) -> str:
        try:
            return check_delete_policy(text, longest_age_s=MAX_AGE_S)
        except BadRequestError:
            raise BadValueError(f"is {shown(text)}: it must be {self.shape}") from None


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words; becomes the value that the word means."""

    options: Mapping[str, Any]

    @property
    def shape(self) -> str:
        return "one of " + ", ".join(self.options)

    def parse(self, text: str) -> Any:
        try:
            return self.options[text]
        except KeyError:
            raise BadValueError(f"is {shown(text)}: it must be {self.shape}") from None


@dataclass(frozen=True, slots=True)
class FlowRules:
    """Flow-control rules; become their normal form."""

    shape: str = "flow-control rules as JSON"

    def parse(self, text: str) -> str:
        try:
            return format_rules(parse_rules(text))
        except FormatError as error:
            raise BadValueError(f"is refused: {error.message}") from None


@dataclass(frozen=True, slots=True)
class JsonSet:
    """A JSON array of flat objects whose keys are parameters; percent-decoded once more, as the original does.

    A nested value is kept as its JSON text; only flow-control rules have one.
    """

    most: int = MAX_WEBAPI_ITEMS
    most_keys: int = MAX_WEBAPI_PARAMS
    shape: str = "a JSON array of objects, URL-encoded twice"

    def parse(self, text: str) -> tuple[dict[str, str], ...]:
        found = read_json(text, self.shape)
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise BadValueError(f"must be {self.shape}")
        if not 0 < len(found) <= self.most:
            raise BadValueError(f"has {len(found):,} objects: it must have at least 1 and at most {self.most:,}")
        keys = len(frozenset().union(*found))
        if keys > self.most_keys:
            raise BadValueError(f"has {keys:,} different keys: its objects may have {self.most_keys} in all")
        return tuple({key: _as_text(value) for key, value in item.items() if value is not None} for item in found)


def read_json(text: str, shape: str, *, parse_int: Callable[[str], object] | None = None) -> Any:
    """Return the value of a JSON text, percent-decoded once more, as the original does. Raises BadValueError.

    An object has each key once. Numbers are bounded in length, unless `parse_int` reads them.
    """
    try:
        return json.loads(
            unquote_plus(text, errors="strict"),
            object_pairs_hook=_without_doubles,
            parse_int=parse_int or _bounded_int,
            parse_constant=_no_constant,
        )
    except (ValueError, RecursionError) as error:
        raise BadValueError(f"is not JSON: {_reason(error)}; it must be {shape}") from None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"an object has the key {shown(key)} twice")
        found[key] = value
    return found


def _bounded_int(text: str) -> int:
    if len(text) > MAX_INT_CHARS:
        raise ValueError(f"a number has {len(text):,} characters, at most {MAX_INT_CHARS} are allowed")
    return int(text)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a value")


def _reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "its bytes are not UTF-8"
    return str(error).splitlines()[0]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True, slots=True)
class FilterItems:
    """Filter items separated by commas."""

    item: Text = field(
        default_factory=lambda: Text(
            MAX_FILTER_ITEM_CHARS, re.compile(r"[_A-Za-z0-9-]+", re.ASCII), "letters, digits, _ or -"
        )
    )
    most: int = 500

    @property
    def shape(self) -> str:
        return f"list of at most {self.most}, each {self.item.shape}"

    def parse(self, text: str) -> frozenset[str]:
        return frozenset(ListOf(self.item, self.most).parse(text))


_WORD = "a letter, then letters, digits or _"

TOPIC = Text(
    MAX_TOPIC_CHARS,
    re.compile(rf"[a-zA-Z]\w{{0,63}}|{HISTORY_TOPIC}", re.ASCII),
    _WORD,
)
GROUP = Text(MAX_GROUP_CHARS, re.compile(r"[a-zA-Z][\w-]*", re.ASCII), "a letter, then letters, digits, _ or -")
USER = Text(64, re.compile(r"[a-zA-Z]\w*", re.ASCII), _WORD)
CONSUMER_ID = Text(1536, re.compile(r"[_A-Za-z0-9.-]+", re.ASCII), "letters, digits, _, . or -")
REASON = Text(1024)
MANAGE_STATUS = Choice({status.text: status for status in ManageStatus})
