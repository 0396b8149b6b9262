"""Columns as Spark writes them (`id BIGINT NOT NULL, tags ARRAY<STRING>`, or a `StructType`), read without Spark.

Spark's own reader of the text is in the JVM, which the workers and `pipeline lint` do not have. A `StructType` is read
by its JSON form, which is the same in every version. The invariant: a type is a value without pyspark or pyarrow;
`decode.arrow_types` and `spark.spark_types` turn it into theirs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from pytubemq.errors import ConfigError
from pytubemq.model.suggest import suggest

MAX_TYPE_DEPTH: Final = 32
MAX_COLUMNS: Final = 10_000

_SAME_TYPE: Final = {
    "boolean": "boolean",
    "byte": "tinyint",
    "tinyint": "tinyint",
    "short": "smallint",
    "smallint": "smallint",
    "int": "int",
    "integer": "int",
    "long": "bigint",
    "bigint": "bigint",
    "real": "float",
    "float": "float",
    "double": "double",
    "dec": "decimal",
    "decimal": "decimal",
    "numeric": "decimal",
    "string": "string",
    "char": "string",
    "varchar": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "array": "array",
    "map": "map",
    "struct": "struct",
}
_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^'\\]|\\.)*')|([\w$]+)|([<>(),:])|(\S))", re.DOTALL)
_EXAMPLE: Final = "columns are written as Spark does: id BIGINT, price DECIMAL(10,2), at TIMESTAMP, tags ARRAY<STRING>"


@dataclass(frozen=True, slots=True)
class Type:
    """A type by Spark's name: tinyint, ..., decimal (precision, scale), array (element), map (key, element), struct."""

    name: str
    precision: int = 10
    scale: int = 0
    element: Type | None = None
    key: Type | None = None
    fields: tuple[Column, ...] = ()

    @property
    def nested(self) -> bool:
        """True if it contains other types."""
        return self.name in ("array", "map", "struct")

    def __str__(self) -> str:
        match self.name:
            case "decimal":
                return f"decimal({self.precision},{self.scale})"
            case "array":
                return f"array<{self.element}>"
            case "map":
                return f"map<{self.key},{self.element}>"
            case "struct":
                return f"struct<{', '.join(f'{field.name}: {field.type}' for field in self.fields)}>"
            case _:
                return self.name


@dataclass(frozen=True, slots=True)
class Column:
    """A column. One that is not nullable rejects the records that lack it."""

    name: str
    type: Type
    nullable: bool = True


class SparkSchema(Protocol):
    """The part of pyspark's `StructType` that is used here."""

    def jsonValue(self) -> dict[str, Any]:
        """Return the schema in Spark's JSON form."""
        ...


Schema: TypeAlias = str | SparkSchema | None
"""Columns as Spark writes them (`id BIGINT, at TIMESTAMP`), a `StructType`, or None: those that the format has."""


def columns_of(schema: Schema) -> tuple[Column, ...] | None:
    """Return the columns of a schema; None where it names none.

    Raises:
        ConfigError: the text is no schema, or has a type that no format decodes.
    """
    if schema is None or isinstance(schema, str):
        return None if schema is None or not schema.strip() else parse_columns(schema)
    columns = _struct_fields(schema.jsonValue())
    check_names(columns)
    return columns


def _struct_fields(struct: dict[str, Any]) -> tuple[Column, ...]:
    return tuple(Column(each["name"], _type_of(each["type"]), each["nullable"]) for each in struct["fields"])


def _type_of(kind: Any) -> Type:
    name = kind if isinstance(kind, str) else kind["type"]
    match name:
        case "array":
            return Type("array", element=_type_of(kind["elementType"]))
        case "map":
            return Type("map", key=_type_of(kind["keyType"]), element=_type_of(kind["valueType"]))
        case "struct":
            fields = _struct_fields(kind)
            check_names(fields)
            return Type("struct", fields=fields)
    try:
        return parse_type(name)
    except ConfigError as error:
        hint = "use another type, or a string"
        raise ConfigError(f"no format makes columns of type {name}", hint=hint) from error


def parse_columns(text: str) -> tuple[Column, ...]:
    """Parse the columns of a text; a whole `struct<...>` is taken for its fields.

    Raises:
        ConfigError: it is not what Spark would take; the text says where.
    """
    return _Reader(text).all()


def parse_type(text: str) -> Type:
    """Return the type that a text names.

    Raises:
        ConfigError: it names none.
    """
    return _Reader(text).one_type()


def check_names(columns: tuple[Column, ...]) -> None:
    """Refuse two columns of one name; Spark ignores case.

    Raises:
        ConfigError: there are two.
    """
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise ConfigError(f"there are two columns {column.name!r}", hint="give one of them another name")
        seen.add(column.name.lower())


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        for match in _TOKEN.finditer(text):
            self._tokens.append((match.group().strip(), match.start()))
        self._at = 0

    def all(self) -> tuple[Column, ...]:
        if self._peek().lower() == "struct" and self._peek(1) == "<":
            fields = self._type(0).fields
            if self._peek():
                raise self._fault("the end")
            return fields
        columns = self._columns("", 0)
        check_names(columns)
        return columns

    def one_type(self) -> Type:
        kind = self._type(0)
        if self._peek():
            raise self._fault("the end")
        return kind

    def _columns(self, end: str, depth: int) -> tuple[Column, ...]:
        found: list[Column] = []
        while True:
            found.append(self._column(depth))
            if len(found) > MAX_COLUMNS:
                raise ConfigError(f"a schema of more than {MAX_COLUMNS} columns", hint="decode fewer columns")
            token = self._next()
            if token == end:
                return tuple(found)
            if token != ",":
                raise self._fault(f"a comma or {end or 'the end'}", back=1)

    def _column(self, depth: int) -> Column:
        token = self._next()
        if token.startswith("`"):
            name = token[1:-1].replace("``", "`")
        elif re.fullmatch(r"[\w$]+", token):
            name = token
        else:
            raise self._fault("a column's name", back=1)
        if self._peek() == ":":
            self._next()
        kind = self._type(depth)
        nullable = True
        while self._peek().lower() in ("not", "comment"):
            if self._next().lower() == "not":
                if self._next().lower() != "null":
                    raise self._fault("NULL", back=1)
                nullable = False
            elif not self._next().startswith("'"):
                raise self._fault("a text in '...'", back=1)
        return Column(name, kind, nullable)

    def _type(self, depth: int) -> Type:
        if depth > MAX_TYPE_DEPTH:
            raise ConfigError(f"types nested more than {MAX_TYPE_DEPTH} deep", hint="decode fewer levels")
        word = self._next()
        name = _SAME_TYPE.get(word.lower())
        if name is None:
            close = suggest(word, _SAME_TYPE)
            raise self._fault(f"a type (did you mean {close.upper()}?)" if close else "a type", back=1)
        match name:
            case "decimal":
                return self._decimal()
            case "array":
                self._expect("<")
                element = self._type(depth + 1)
                self._expect(">")
                return Type("array", element=element)
            case "map":
                self._expect("<")
                key = self._type(depth + 1)
                self._expect(",")
                value = self._type(depth + 1)
                self._expect(">")
                return Type("map", key=key, element=value)
            case "struct":
                self._expect("<")
                fields = self._columns(">", depth + 1)
                check_names(fields)
                return Type("struct", fields=fields)
        if word.lower() in ("char", "varchar") and self._peek() == "(":
            self._numbers(1)
        return Type(name)

    def _decimal(self) -> Type:
        if self._peek() != "(":
            return Type("decimal")
        numbers = self._numbers(2)
        precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
        if not 1 <= precision <= 38 or scale > precision:
            raise self._fault("a precision from 1 to 38 and a scale not above it", back=1)
        return Type("decimal", precision=precision, scale=scale)

    def _numbers(self, most: int) -> list[int]:
        self._expect("(")
        numbers: list[int] = []
        while True:
            token = self._next()
            if not (token.isascii() and token.isdigit() and len(token) < 10) or len(numbers) == most:
                raise self._fault("a number", back=1)
            numbers.append(int(token))
            token = self._next()
            if token == ")":
                return numbers
            if token != ",":
                raise self._fault("a comma or )", back=1)

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at][0] if at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise self._fault(token, back=1)

    def _fault(self, expected: str, *, back: int = 0) -> ConfigError:
        at = self._at - back
        if at < len(self._tokens):
            found, position = self._tokens[at]
            where = f"{found!r} at character {position + 1}"
        else:
            where = "its end"
        return ConfigError(f"schema {self._text!r}: expected {expected}, found {where}", hint=_EXAMPLE)
