"""Reading a declaration from plain values, as a JSON body or a file gives them.

The invariant: an accepted declaration has known keys and values of the right types only; an error names the key with
its whole path, and the key that was probably meant.
"""

from __future__ import annotations

from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from pytubemq.errors import BadRequestError
from pytubemq.master.declaration.declaration import FORMAT, Declaration
from pytubemq.master.declaration.keys import wrong
from pytubemq.model.limits import MAX_SHOWN_CHARS
from pytubemq.model.names import escaped
from pytubemq.model.suggest import suggest


def read_declaration(value: Any) -> Declaration:
    """Return the declaration of plain values.

    Raises:
        BadRequestError: a key is unknown, a value is of the wrong type, or a later version wrote it.
    """
    written = value.get("format", FORMAT) if isinstance(value, dict) else FORMAT
    if isinstance(written, int) and not isinstance(written, bool) and written != FORMAT:
        raise wrong("format", f"is {written}", f"this version reads format {FORMAT}: use one that reads {written}")
    found = _build(value, Declaration, "")
    assert isinstance(found, Declaration)
    return found


def _build(value: Any, kind: Any, path: str) -> Any:
    if get_origin(kind) in (Union, UnionType):
        kind = next(one for one in get_args(kind) if one is not msgspec.UnsetType)
    if get_origin(kind) is dict:
        return _named(value, get_args(kind)[1], path)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(value, kind, path)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise wrong(path, str(error)) from error


def _struct(value: Any, kind: type[msgspec.Struct], path: str) -> msgspec.Struct:
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    found = {}
    for key, one in _table(value, path).items():
        if key not in types:
            near = suggest(key, types)
            hint = f"did you mean {near}?" if near else f"the keys are {', '.join(types)}"
            raise wrong(_below(path, key), "unknown key", hint)
        found[key] = _build(one, types[key], _below(path, key))
    return kind(**found)


def _named(value: Any, kind: Any, path: str) -> dict[str, Any]:
    return {name: _build(one, kind, _below(path, name)) for name, one in _table(value, path).items()}


def _table(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        if not path:
            raise BadRequestError("the declaration is not an object of sections", hint="see `pytubemq cluster export`")
        raise wrong(path, f"takes keys with values, not {type(value).__name__}")
    return value


def _below(path: str, key: str) -> str:
    name = escaped(key[:MAX_SHOWN_CHARS])
    return f"{path}.{name}" if path else name
