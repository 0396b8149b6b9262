"""Declared parameters: the names and kinds that a method accepts, and their values in a request.

The invariants: a method runs only with arguments that are all of their kind; every fault is one `CallError` that
names the parameter and says what to change. A long name has precedence over its short one; an unknown name that
resembles one of the method's is treated as misspelt and refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.kinds import (
    INT64_MAX,
    USER,
    BadValueError,
    Bool,
    Choice,
    Date,
    DeletePolicy,
    Int,
    JsonSet,
    Kind,
    shown,
)
from pytubemq.admin.webapi.names import KNOWN_NAMES, SHORT_NAMES
from pytubemq.master.registry.audit import Audit
from pytubemq.model.durability import Durability
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import MAX_WEBAPI_TARGETS
from pytubemq.model.records import TopicProps
from pytubemq.model.suggest import suggest
from pytubemq.security.permissions import Operation, ResourceKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pytubemq.model.records import Stamp

BAD_REQUEST = 400
LONGEST_NAME = 64
MAX_NAMES_KEPT = 1024
_RESEMBLES = 0.8


class CallError(Exception):
    """A refused call: the response has `result: false`, this code and this text."""

    def __init__(self, text: str, *, code: int = BAD_REQUEST) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter by its long name. `old` are names it also has; `items` are the keys of a JSON set's objects.

    Absent, it has the value of `default`, None unless said otherwise.
    """

    name: str
    kind: Kind
    required: bool = False
    default: Any = None
    old: tuple[str, ...] = ()
    items: tuple[Param, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All its names, in the order of precedence."""
        short = SHORT_NAMES.get(self.name)
        return (self.name, *(() if short is None else (short,)), *self.old)

    def read(self, texts: Mapping[str, str], where: str = "") -> Any:
        """Return its value among the texts of a request. Raises CallError."""
        found = [(name, text) for name in self.names if name in texts and (text := clean(texts[name]))]
        if not found:
            if self.required:
                other = "".join(f" or {name}" for name in self.names[1:])
                raise CallError(f"{where}parameter {self.name} is missing: give {self.name}{other}, {self.kind.shape}")
            return self.default
        name, text = found[0]
        for other, differs in found[1:]:
            if differs != text:
                raise CallError(f"{where}parameter {name} is also given as {other}, with another value: leave one out")
        try:
            return self.kind.parse(text)
        except BadValueError as error:
            raise CallError(f"{where}parameter {name} {error}") from None


def clean(text: str) -> str:
    """Return a value trimmed, and without one pair of double quotes around it."""
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1].strip()
    return text


def _may_all(operation: Operation, kind: ResourceKind, name: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Args:
    """The arguments of a call by their long names, and what else its caller may do; `now_ms` is when it came."""

    values: Mapping[str, Any]
    now_ms: int = 0
    inherited: Mapping[str, Any] = field(default_factory=dict)
    may: Callable[[Operation, ResourceKind, str], bool] = field(default=_may_all, compare=False)

    def shows_group(self, group: str) -> bool:
        """True if a group may be named to the caller."""
        return self.may(Operation.DESCRIBE, ResourceKind.GROUP, group)

    def shows_consumer(self, topic: str, group: str) -> bool:
        """True if a rule about a group and a topic may be shown to the caller: who may `admin` the topic makes it."""
        return self.shows_group(group) or self.may(Operation.ADMIN, ResourceKind.TOPIC, topic)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument, or `default` when the parameter is absent or the method has none of this name."""
        value = self.values.get(name)
        return default if value is None else value

    def given(self, name: str) -> bool:
        """True if the parameter is present or has a default."""
        return self.values.get(name) is not None

    def items(self, name: str) -> tuple[Args, ...]:
        """Return the objects of a JSON set, each as arguments of its own; empty when absent."""
        found: tuple[Args, ...] = self.values.get(name) or ()
        return found

    def pairs(self, first: str, second: str) -> Iterator[tuple[Any, Any]]:
        """Yield every pair of two lists. Raises CallError: they are too many for one call."""
        ones, others = self.values[first] or (), self.values[second] or ()
        if len(ones) * len(others) > MAX_WEBAPI_TARGETS:
            raise CallError(
                f"{first} and {second} make {len(ones) * len(others):,} pairs, at most {MAX_WEBAPI_TARGETS:,} go into "
                "one call: split the lists"
            )
        return ((one, other) for one in ones for other in others)

    @property
    def audit(self) -> Audit:
        """The author and time of a change, from `OPS_ADD` or `OPS_UPD`; a JSON set's object goes before the request."""
        values = {**self.inherited, **{name: value for name, value in self.values.items() if value is not None}}
        version = values.get("dataVersionId", UNDEFINED)
        if "createUser" not in values:
            return Audit(values.get("modifyUser", ""), values.get("modifyDate", self.now_ms), version)
        return Audit(
            values["createUser"],
            values.get("createDate", self.now_ms),
            version,
            modify_user=values.get("modifyUser", ""),
            modify_ms=values.get("modifyDate", 0),
        )

    def props(self) -> TopicProps:
        """The topic properties that were given, from `PROPS`."""
        return TopicProps(**{field_name: self.values.get(name) for name, field_name in PROP_FIELDS.items()})


def read_args(
    params: Sequence[Param],
    texts: Mapping[str, str],
    *,
    now_ms: int,
    where: str = "",
    inherited: Mapping[str, Any] | None = None,
) -> Args:
    """Return the arguments of a call. Raises CallError."""
    _check_names(params, texts, where)
    values = {param.name: param.read(texts, where) for param in params}
    audit = {name: values[name] for name in _AUDIT_NAMES if values.get(name) is not None}
    for param in params:
        if param.items and values[param.name] is not None:
            values[param.name] = tuple(
                read_args(
                    (*param.items, *_ITEM_OPS),
                    item,
                    now_ms=now_ms,
                    where=f"{where}{param.name}[{number}]: ",
                    inherited=audit,
                )
                for number, item in enumerate(values[param.name])
            )
    return Args(values, now_ms, inherited or {})


def _check_names(params: Sequence[Param], texts: Mapping[str, str], where: str) -> None:
    strange = texts.keys() - KNOWN_NAMES
    if not strange:
        return
    ours = tuple(name for param in params for name in param.names)
    for name in texts:
        if name in strange and name not in ours and (meant := _meant(name[:LONGEST_NAME], ours)):
            raise CallError(f"{where}parameter {shown(name)} does not exist: did you mean {meant}?")


@lru_cache(MAX_NAMES_KEPT)  # the objects of a set have the same keys, and a comparison takes long
def _meant(name: str, ours: tuple[str, ...]) -> str | None:
    return suggest(name, ours, likeness=_RESEMBLES, ignore_case=False)


def filters(*params: Param) -> tuple[Param, ...]:
    """Return the parameters of a query, with those that every query of records has."""
    return (*params, *OPS_QUERY)


def has_stamp(stamp: Stamp, args: Args) -> bool:
    """True if a record has the authors and the version that a query names."""
    wanted = (
        (args.get("createUser"), stamp.create_user),
        (args.get("modifyUser"), stamp.modify_user),
        (args.get("dataVersionId"), stamp.data_version_id),
    )
    return all(value is None or value == found for value, found in wanted)


_USER = Param("createUser", USER)
_EDITOR = Param("modifyUser", USER)
_VERSION = Param("dataVersionId", Int(0, INT64_MAX, or_undefined=True))
_DATES = (Param("createDate", Date()), Param("modifyDate", Date()))

OPS_ADD = (Param("createUser", USER, required=True), _DATES[0], _EDITOR, _DATES[1], _VERSION)
"""The author and time of an addition."""
OPS_UPD = (Param("modifyUser", USER, required=True), _DATES[1], _VERSION)
"""The author and time of a change or deletion."""
OPS_QUERY = (_USER, _EDITOR, _VERSION)
"""Filters of queries: only records with exactly these values are shown."""
_ITEM_OPS = (_USER, _EDITOR, *_DATES, _VERSION)
_AUDIT_NAMES = tuple(param.name for param in _ITEM_OPS)

PROPS = (
    Param("numTopicStores", Int(1)),
    Param("numPartitions", Int(1)),
    Param("unflushThreshold", Int(0)),
    Param("unflushInterval", Int(1)),
    Param("unflushDataHold", Int(0)),
    Param("memCacheMsgSizeInMB", Int(2, 2048)),
    Param("memCacheMsgCntInK", Int(1)),
    Param("memCacheFlushIntvl", Int(4000)),
    Param("acceptPublish", Bool()),
    Param("acceptSubscribe", Bool()),
    Param("deletePolicy", DeletePolicy()),
    Param("durability", Choice({one.value: one for one in Durability})),
)
"""The properties of a topic; the durability is ours."""

PROP_FIELDS = dict(zip((param.name for param in PROPS), TopicProps.__dataclass_fields__, strict=True))
"""The field of `TopicProps` for each parameter of `PROPS`."""


def json_set(name: str, *items: Param) -> Param:
    """Return a required JSON set of objects with these keys; each may also name its author, else the request does."""
    return Param(name, JsonSet(), required=True, items=items)
