"""The tables of docs/reference/webapi.md, from the methods of the Master themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.names import SHORT_NAMES
from pytubemq.admin.webapi.params import OPS_ADD, OPS_QUERY, OPS_UPD, PROP_FIELDS, PROPS, Param
from pytubemq.admin.webapi.table import master_table
from pytubemq.model.records import BUILT_IN_PROPS, ManageStatus
from scripts.docs.markdown import table as markdown_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytubemq.admin.webapi.method import Method, Table

_GROUPS: tuple[tuple[str, tuple[Param, ...]], ...] = (
    ("*add*", OPS_ADD),
    ("*change*", OPS_UPD),
    ("*stamp*", OPS_QUERY),
    ("*properties*", PROPS),
)
"""Parameters that go together, and the word for them; the first that fits is taken."""


def tables() -> dict[str, str]:
    """Return the sections on methods, on parameters, and on what is not offered."""
    table = master_table()
    return {"methods": "\n".join((*_methods(table.methods), "", *_parameters(table.methods), "", *_missing(table)))}


def _methods(methods: Iterable[Method[Any]]) -> Iterable[str]:
    yield "## Methods"
    yield ""
    rows = []
    for method in sorted(methods, key=lambda one: one.name):
        names = "<br>".join(f"`{name}`" for name in (method.name, *method.aliases))
        mark = " **M**" if method.modify else ""
        rows.append((f"{names}{mark}", _listed(method.params), method.about))
    yield markdown_table(("method", "parameters", "what it does"), rows)


def _listed(params: Sequence[Param]) -> str:
    left = list(params)
    words = []
    for word, group in _GROUPS:
        if all(param in left for param in group):
            words.append(word)
            left = [param for param in left if param not in group]
    return ", ".join([*map(_written, left), *words])


def _written(param: Param) -> str:
    star = "\\*" if param.required else ""
    inner = f" of {{{_listed(param.items)}}}" if param.items else ""
    return f"`{param.name}`{star}{inner}"


def _parameters(methods: Iterable[Method[Any]]) -> Iterable[str]:
    shapes: dict[str, dict[str, None]] = {}
    defaults: dict[str, dict[str, None]] = {}
    others: dict[str, set[str]] = {}
    for param in _all([param for method in methods for param in method.params]):
        shapes.setdefault(param.name, {})[param.kind.shape] = None
        if not param.required:
            defaults.setdefault(param.name, {})[_default(param)] = None
        others.setdefault(param.name, set()).update(param.old)
    yield "## Parameters"
    yield ""
    rows = []
    for name in sorted(shapes):
        short = SHORT_NAMES.get(name)
        names = ", ".join(f"`{other}`" for other in (*([short] if short else []), *sorted(others[name])))
        left_out = " or ".join(filter(None, defaults.get(name, {})))
        rows.append((f"`{name}`", names, "; or ".join(shapes[name]), left_out))
    yield markdown_table(("name", "other names", "value", "left out"), rows)


def _default(param: Param) -> str:
    """What holds when a parameter is left out; blank where nothing does."""
    if param in PROPS:
        built_in = getattr(BUILT_IN_PROPS, PROP_FIELDS[param.name])
        shown = "the setting of each Broker" if built_in is None else _plain(built_in)
        return f"{shown}, unless the Broker or the cluster has another"
    return "" if param.default is None else _plain(param.default)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, ManageStatus):
        return f"`{value.text}`"
    return f"`{value}`" if isinstance(value, int | str) and value != "" else ""


def _all(params: Iterable[Param]) -> Iterable[Param]:
    for param in params:
        yield param
        yield from _all(param.items)


def _missing(table: Table[Any]) -> Iterable[str]:
    yield "## Not offered"
    yield ""
    yield "Methods that only a Java Master has, as listed by its `admin_get_methods`; a call gets 400 with this text."
    yield ""
    rows = [(f"`{name}`", reason) for name, reason in sorted(table.not_offered.items())]
    yield markdown_table(("method", "why, and what to use instead"), rows)
