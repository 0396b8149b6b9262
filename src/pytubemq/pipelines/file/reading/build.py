"""A file's tree and the table of keys, made into the model's values; every fault on the way is reported with its place.

The invariant: reading goes on after a fault, so that one look shows all of them; a section with a fault in what it
needs is not made.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from pytubemq.errors import ConfigError
from pytubemq.model import units
from pytubemq.model.suggest import suggest
from pytubemq.pipelines.file import model
from pytubemq.pipelines.file.document import Entry, Items, Scalar, Table, kind_of, plain
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.key import Kind
from pytubemq.pipelines.file.keys import ROOT, child, sections
from pytubemq.pipelines.file.secrets import references, resolve, with_variables
from pytubemq.pipelines.file.sink_table import sink_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytubemq.pipelines.file.document import Mark, Node
    from pytubemq.pipelines.file.faults import Fault
    from pytubemq.pipelines.file.key import Key, Section
    from pytubemq.pipelines.file.source_positions import Places

_PIPELINE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_INTERVAL: Final = re.compile(r"(?:interval )?\d+(?:\.\d+)? ?(?:milli|micro)?(?:second|minute|hour|day|week)s?", re.I)
_SHORT_INTERVAL: Final = re.compile(r"(\d+) ?(ms|s|m|min|h|d)")
_INTERVAL_UNITS: Final = {
    "ms": "milliseconds", "s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days",
}  # fmt: skip
_NUMBERS: Final[Mapping[Kind, tuple[Callable[[str], int | float | None], str]]] = {
    Kind.COUNT: (units.count, "a whole number of at least 1, as 200_000"),
    Kind.SIZE: (units.size_bytes, "a size, as 64MiB or 1000000"),
    Kind.DURATION: (units.duration_s, "a time, as 10s, 500ms or 2m"),
    Kind.RATIO: (units.ratio, "a share from 0 to 1, as 0.01 or 1%"),
}
_SINK_FIELDS: Final = frozenset(field.name for field in fields(model.Sink))


class _Unfit(Exception):
    """A value does not fit; its fault has been recorded."""


class Builder:
    """Makes one pipeline of one tree."""

    def __init__(self, places: Places, faults: list[Fault], variables: Mapping[str, str]) -> None:
        self.places = places
        self.faults = faults
        self.variables = variables

    def pipeline(self, tree: Node) -> model.Pipeline | None:
        """Build the pipeline; None if a part that it needs is missing or wrong."""
        try:
            pipeline: model.Pipeline = self._section(ROOT, tree, "")
        except _Unfit:
            return None
        return pipeline

    def _fault(
        self, code: FaultCode, path: str, message: str, hint: str | None = None, *, at: Mark | None = None,
        at_key: bool = False,
    ) -> _Unfit:  # fmt: skip
        self.faults.append(self.places.fault(code, path, message, hint, at=at, at_key=at_key))
        return _Unfit()

    def _section(self, section: Section, node: Node, path: str) -> Any:
        if isinstance(node, Scalar) and section.short and not node.is_null:
            node = Table((Entry(_short(section, node), node.mark, node),), node.mark)
        if not isinstance(node, Table):
            raise self._fault(FaultCode.WRONG_TYPE, path, f"takes keys, not {kind_of(node)}")
        given: dict[str, Any] = {}
        is_incomplete = False
        by_field: dict[str, str] = {}
        for entry in node.entries:
            here = f"{path}.{entry.key}" if path else entry.key
            self.places.add(here, entry.mark, entry.value)
            key = section.key(entry.key)
            if key is None:
                self._unknown(section, entry.key, here)
                continue
            if key.into in by_field:
                text = f"is given together with {by_field[key.into]}, which says the same"
                self._fault(FaultCode.CONTRADICTION, here, text, "keep one of the two", at_key=True)
                continue
            by_field[key.into] = entry.key
            try:
                given[key.into] = self._value(section, key, entry.value, here)
            except _Unfit:
                is_incomplete = is_incomplete or key.required
        for key in section.keys:
            if key.required and key.into not in by_field:
                where = path or "the file"
                example = f": {', '.join(key.takes)}" if key.takes else ""
                hint = f"{_lower(key.doc)}{example}".removesuffix(".")
                self._fault(FaultCode.MISSING_KEY, path, f"{'' if path else where + ' '}needs the key {key.name}", hint)
                is_incomplete = True
        if is_incomplete:
            raise _Unfit
        return section.made(**self._finished(section, given, path))

    def _unknown(self, section: Section, name: str, path: str) -> None:
        names = [key.name for key in section.keys]
        close = suggest(name, names)
        elsewhere = "" if close else _elsewhere(name)
        hint = f'did you mean "{close}"?' if close else elsewhere or f"the keys are {', '.join(names)}"
        self._fault(FaultCode.UNKNOWN_KEY, path, "unknown key", hint, at_key=True)

    def _finished(self, section: Section, given: dict[str, Any], path: str) -> dict[str, Any]:
        """Complete a section where one key's value decides another's default."""
        if section.made is model.Trigger and "interval" in given:
            kind = given.setdefault("kind", model.TriggerKind.INTERVAL)
            if kind is not model.TriggerKind.INTERVAL:
                self._fault(FaultCode.CONTRADICTION, path, f"kind {kind} has no interval", "delete one of the two")
        elif section.made is model.Trigger and given.get("kind") is model.TriggerKind.INTERVAL:
            self._fault(FaultCode.MISSING_KEY, path, "needs the key interval", "as 10 seconds or 10s")
        if section.made is model.DeadLetter and "format" not in given:
            given |= _chosen_format(given)
        if section.made is model.Sink:
            given = _with_more(given)
        if section.made is model.Case:
            given.setdefault("name", f"test {int(path[path.index('[') + 1 : -1]) + 1}")
        return given

    def _value(self, section: Section, key: Key, node: Node, path: str) -> Any:
        if isinstance(node, Scalar) and node.is_null and key.kind is not Kind.TEXTS:
            raise self._fault(FaultCode.WRONG_TYPE, path, "has no value", "give it one, or delete the key", at_key=True)
        if key.kind is Kind.SECTION:
            return self._section(child(section, key), node, path)
        if key.kind is Kind.SECTIONS:
            return self._sections(child(section, key), node, path)
        if key.kind in {Kind.ROWS, Kind.EXPECTED}:
            return self._rows(node, path) if key.kind is Kind.ROWS else self._expected(node, path)
        if key.kind is Kind.OPTIONS:
            return self._options(node, path)
        if key.kind is Kind.TEXTS:
            return self._texts(node, path, at_once=key.at_once)
        if key.kind is Kind.POSITIONS and isinstance(node, Table):
            return self._positions(node, path)
        text = self._scalar(key, node, path)
        return (text,) if key.into == "topics" else text

    def _scalar(self, key: Key, node: Node, path: str) -> Any:
        if not isinstance(node, Scalar):
            raise self._fault(FaultCode.WRONG_TYPE, path, f"takes {_takes(key)}, not {kind_of(node)}")
        text = self._text(node, path, free=key.kind is Kind.SQL)
        if key.at_once:
            text = self._resolved(text, path, needed=key.kind not in {Kind.TEXT, Kind.POSITIONS})
        if key.kind in _NUMBERS:
            number, takes = _NUMBERS[key.kind]
            value = number(text)
            if value is None:
                raise self._fault(FaultCode.WRONG_TYPE, path, f"takes {takes}, not {kind_of(node)}")
            return value
        if key.kind is Kind.FLAG:
            if text.lower() not in {"true", "false"}:
                raise self._fault(FaultCode.WRONG_TYPE, path, f"takes true or false, not {kind_of(node)}")
            return text.lower() == "true"
        if key.kind is Kind.CHOICE:
            return self._choice(key, text, path)
        return self._checked_text(key, text, path)

    def _choice(self, key: Key, text: str, path: str) -> Any:
        if text not in key.takes:
            close = suggest(text.replace(" ", "_"), key.takes)
            hint = f'did you mean "{close}"?' if close else f"it takes {', '.join(key.takes)}"
            raise self._fault(FaultCode.BAD_VALUE, path, f"does not take {text[:80]!r}", hint)
        return text if key.enum is None else key.enum(text)

    def _checked_text(self, key: Key, text: str, path: str) -> str:
        if not text.strip():
            raise self._fault(FaultCode.WRONG_TYPE, path, "is empty", "give it a value, or delete the key")
        if key.kind is Kind.NAME:
            wanted = _PIPELINE_NAME if path == "name" else model.NAME
            if not wanted.fullmatch(text):
                hint = "up to 64 letters, digits and _, not beginning with a digit"
                raise self._fault(FaultCode.BAD_VALUE, path, f"{text[:80]!r} is not a name", hint)
        if key.kind is Kind.FUNCTION and not _FUNCTION.fullmatch(text):
            raise self._fault(FaultCode.BAD_VALUE, path, f"{text[:80]!r} is not module:function", "as my_steps:clean")
        if key.kind is Kind.INTERVAL:
            return self._interval(text, path)
        return text

    def _interval(self, text: str, path: str) -> str:
        if short := _SHORT_INTERVAL.fullmatch(text.strip()):
            return f"{short[1]} {_INTERVAL_UNITS[short[2]]}"
        if not _INTERVAL.fullmatch(text.strip()):
            raise self._fault(FaultCode.BAD_VALUE, path, f"{text[:80]!r} is not an interval", "as 10 seconds or 10s")
        return text.strip()

    def _text(self, node: Scalar, path: str, *, free: bool = False) -> str:
        """Return a scalar's text, with variables put in and references checked."""
        for reference in references(node.text):
            if not reference.kind and not free:
                hint = "write ${env:NAME}, ${file:/path} or ${var:name}; $${ is a plain ${"
                self._fault(FaultCode.BAD_REFERENCE, path, f"{reference.name!r} is not a reference", hint)
            known = reference.name in self.variables or reference.default is not None
            if reference.kind == "var" and not known:
                close = suggest(reference.name, self.variables)
                hint = f"did you mean {close}?" if close else f"--set {reference.name}=..."
                self._fault(FaultCode.BAD_REFERENCE, path, f"the variable {reference.name} is not given", hint)
        return with_variables(node.text, self.variables)

    def _resolved(self, text: str, path: str, *, needed: bool = False) -> str:
        """Resolve a text's references; report one that fails and keep it unless its value is `needed`."""
        if "${" not in text:
            return text
        is_reported = any(one.kind in {"", "var"} and one.default is None for one in references(text))
        try:
            return text if is_reported and not needed else resolve(text, secret=False)
        except ConfigError as error:
            fault = _Unfit() if is_reported else self._fault(FaultCode.BAD_REFERENCE, path, error.message, error.hint)
            if needed:
                raise fault from error
            return text

    def _positions(self, node: Table, path: str) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for entry in node.entries:
            here = f"{path}.{entry.key}"
            self.places.add(here, entry.mark, entry.value)
            if isinstance(entry.value, Table):
                made[entry.key] = self._positions(entry.value, here)
            elif isinstance(entry.value, Scalar) and "${" in entry.value.text:
                text = self._resolved(self._text(entry.value, here), here)
                made[entry.key] = plain(Scalar(text, entry.value.mark))
            else:
                made[entry.key] = plain(entry.value)
        return made

    def _sections(self, section: Section, node: Node, path: str) -> tuple[Any, ...]:
        if not isinstance(node, Items):
            raise self._fault(FaultCode.WRONG_TYPE, path, f"takes a list, not {kind_of(node)}", "begin each with -")
        made: list[Any] = []
        whole = True
        for index, item in enumerate(node.items):
            here = f"{path}[{index}]"
            self.places.add(here, item.mark, item)
            if (name := _name(item)) is not None:
                self.places.names[here] = name
            try:
                made.append(self._section(section, item, here))
            except _Unfit:
                whole = False
        if not whole:
            raise _Unfit
        return tuple(made)

    def _texts(self, node: Node, path: str, *, at_once: bool) -> tuple[str, ...]:
        items = node.items if isinstance(node, Items) else (node,)
        made = []
        for index, item in enumerate(items):
            here = f"{path}[{index}]" if isinstance(node, Items) else path
            self.places.add(here, item.mark, item)
            if not isinstance(item, Scalar) or item.is_null or not item.text.strip():
                raise self._fault(FaultCode.WRONG_TYPE, here, f"takes text, not {kind_of(item)}")
            text = self._text(item, here)
            made.append(self._resolved(text, here) if at_once else text)
        return tuple(made)

    def _options(self, node: Node, path: str) -> dict[str, str]:
        if not isinstance(node, Table):
            raise self._fault(FaultCode.WRONG_TYPE, path, f"takes names with values, not {kind_of(node)}")
        made: dict[str, str] = {}
        for entry in node.entries:
            here = f"{path}.{entry.key}"
            self.places.add(here, entry.mark, entry.value)
            if isinstance(entry.value, Table):  # `spark.sql.x` in TOML, or written below each other in YAML
                made |= {f"{entry.key}.{name}": value for name, value in self._options(entry.value, here).items()}
            elif isinstance(entry.value, Items):
                self._fault(FaultCode.WRONG_TYPE, here, "takes text, not a list")
            elif entry.value.is_null:
                self._fault(FaultCode.WRONG_TYPE, here, "has no value", 'an empty text is ""')
            else:
                made[entry.key] = self._text(entry.value, here)
        return made

    def _rows(self, node: Node, path: str) -> tuple[dict[str, Any], ...]:
        if not isinstance(node, Items):
            raise self._fault(
                FaultCode.WRONG_TYPE, path, f"takes a list of rows, not {kind_of(node)}", "begin each with -"
            )
        rows = []
        for index, item in enumerate(node.items):
            here = f"{path}[{index}]"
            self.places.add(here, item.mark, item)
            if isinstance(item, Items):
                raise self._fault(FaultCode.WRONG_TYPE, here, "takes a row, not a list")
            if isinstance(item, Table):
                for entry in item.entries:
                    self.places.add(f"{here}.{entry.key}", entry.mark, entry.value)
            rows.append({"body": item.text} if isinstance(item, Scalar) else dict(plain(item)))
        return tuple(rows)

    def _expected(self, node: Node, path: str) -> dict[str, tuple[dict[str, Any], ...]]:
        if not isinstance(node, Table):
            raise self._fault(FaultCode.WRONG_TYPE, path, f"takes sinks with rows, not {kind_of(node)}")
        made = {}
        for entry in node.entries:
            here = f"{path}.{entry.key}"
            self.places.add(here, entry.mark, entry.value)
            made[entry.key] = self._rows(entry.value, here)
        return made


def _short(section: Section, node: Scalar) -> str:
    """Return the key that a bare text stands for: a trigger's text that is none of its kinds is an interval."""
    key = section.key(section.short)
    assert key is not None
    return "interval" if key.takes and node.text not in key.takes and node.text[:1].isdigit() else section.short


def _name(item: Node) -> str | None:
    if not isinstance(item, Table):
        return None
    value = next((entry.value for entry in item.entries if entry.key == "name"), None)
    return value.text if isinstance(value, Scalar) and value.text else None


def _takes(key: Key) -> str:
    return (
        _NUMBERS[key.kind][1] if key.kind in _NUMBERS else key.kind.value if key.kind is not Kind.CHOICE else "a word"
    )


def _elsewhere(name: str) -> str:
    """Return a hint on where a key of another section belongs."""
    there = [section.path for section in sections().values() if section.key(name.lower())]
    homes = [path.removesuffix("[]") or "the top" for path in there]
    return f"it belongs in {' or '.join(homes[:3])}" if homes else ""


def _chosen_format(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the format of dead letters by the keys that are given; nothing if none of them decides it."""
    for kind in reversed(sink_kinds()):
        if kind.dead_letters is not None and kind.dead_letters.chosen_by in given:
            return {"format": kind.name}
    return {}


def _with_more(given: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a sink, with those that the model has no field for in `more`."""
    more = {name: value for name, value in given.items() if name not in _SINK_FIELDS}
    return {name: value for name, value in given.items() if name not in more} | ({"more": more} if more else {})


def _lower(text: str) -> str:
    first = text.split(";", 1)[0]
    return first[:1].lower() + first[1:]
