"""The tables of the reference page, written from the methods themselves.

`scripts/write_webapi_page.py` puts them into docs/reference/webapi.md, and a test compares the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytubemq.admin.webapi.names import SHORT_NAMES
from pytubemq.admin.webapi.params import OPS_ADD, OPS_QUERY, OPS_UPD, PROP_FIELDS, PROPS, Param
from pytubemq.model.records import BUILT_IN_PROPS, ManageStatus

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
START, END = "<!-- written from the code -->\n", "<!-- end -->\n"


def tables(table: Table[Any]) -> str:
    """Methods, parameters and what is not offered, as Markdown."""
    return "\n".join((*_methods(table.methods), "", *_parameters(table.methods), "", *_missing(table), ""))


def put(page: str, table: Table[Any]) -> str:
    """A page with the tables of now between its two marks."""
    before, _, rest = page.partition(START)
    return f"{before}{START}\n{tables(table)}\n{END}{rest.partition(END)[2]}"


def _methods(methods: Iterable[Method[Any]]) -> Iterable[str]:
    yield "## Methods"
    yield ""
    yield "| method | parameters | what it does |"
    yield "|---|---|---|"
    for method in sorted(methods, key=lambda one: one.name):
        names = "<br>".join(f"`{name}`" for name in (method.name, *method.aliases))
        mark = " **M**" if method.modify else ""
        yield f"| {names}{mark} | {_listed(method.params)} | {method.about} |"


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
    yield "| name | other names | value | left out |"
    yield "|---|---|---|---|"
    for name in sorted(shapes):
        short = SHORT_NAMES.get(name)
        names = ", ".join(f"`{other}`" for other in (*([short] if short else []), *sorted(others[name])))
        left_out = " or ".join(filter(None, defaults.get(name, {})))
        yield f"| `{name}` | {names} | {'; or '.join(shapes[name])} | {left_out} |"


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
    yield "Missing of what the original lists under `admin_get_methods`; a call is refused (400) with these words."
    yield ""
    yield "| method | why, and what to use instead |"
    yield "|---|---|"
    for name, reason in sorted(table.not_offered.items()):
        yield f"| `{name}` | {reason} |"
