"""Correct messages of any class, to be corrupted: requests of clients and Brokers that would be served.

The invariant: messages are made from the schema, so a class or a field that is added is sent as well; numbers that are
not named here are small.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from pytubemq.testing.hostile.forms import FORM_OF
from pytubemq.testing.hostile.packs import sound_columns
from pytubemq.wire.batch.checksum import NOT_CHECKED
from pytubemq.wire.protobuf.schema import FieldSpec, Kind, Label, specs
from pytubemq.wire.protocol.messages.extension import PackEntry

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytubemq.testing.hostile.values import Values

SOMETIMES = 0.5
LEAST_VALUE_BYTES = 40
MOST_BULK = 20_000
SELDOM = frozenset({"auth_info", "authorized_info", "producer_id", "producer_epoch", "sequence", "refusals_seen"})
"""Optional fields that change what the others mean, so that most requests go without."""


def sound(cls: type, values: Values) -> Any:
    """Return a message of class `cls` that a correct peer might send."""
    random = values.random
    chosen: dict[str, Any] = {}
    for name, spec in specs(cls).items():
        if spec.label is Label.OPTIONAL and random.random() > (0.1 if name in SELDOM else SOMETIMES):
            continue
        if spec.label is Label.REPEATED:
            chosen[name] = tuple(_value(cls, name, spec, values) for _ in range(random.choice((0, 1, 1, 2, 3))))
        else:
            chosen[name] = _value(cls, name, spec, values)
    return cls(**chosen)


def bulk(cls: type, values: Values, *, most_bytes: int) -> tuple[Any, str]:
    """Return a correct message in which one repeated field has as many values as its bound and the size allow."""
    fields = specs(cls)
    message = sound(cls, values)
    many = [name for name, spec in fields.items() if spec.label is Label.REPEATED]
    if not many:
        return message, "sound"
    name = values.random.choice(many)
    count = min(fields[name].most or most_bytes, most_bytes // LEAST_VALUE_BYTES, MOST_BULK)
    few = [_value(cls, name, fields[name], values) for _ in range(min(count, 100))]
    items = [few[number % len(few)] for number in range(count)]
    if fields[name].kind is Kind.STR:
        items = [f"{item}{number}" if number % 2 else item for number, item in enumerate(items)]
    return replace(message, **{name: tuple(items)}), f"{count} {name}"


def _value(cls: type, name: str, spec: FieldSpec, values: Values) -> Any:
    kind = spec.kind
    if not isinstance(kind, Kind):
        return values.random.choice(list(kind)) if issubclass(kind, Enum) else sound(kind, values)
    if kind is Kind.STR:
        form = "broker client" if cls.__name__ == "RegisterRequestB2M" and name == "client_id" else FORM_OF.get(name)
        return values.form(form) if form is not None else "text"
    if kind is Kind.BYTES:
        return sound_columns(values) if cls is PackEntry else values.random.randbytes(values.random.randrange(1, 60))
    if kind is Kind.BOOL:
        return values.random.random() < 0.5
    maker = NUMBER_OF.get(name)
    return maker(values) if maker is not None else values.random.randrange(3)


NUMBER_OF: dict[str, Callable[[Values], int]] = {
    "partition_id": lambda values: values.partition_id(),
    "op_type": lambda values: values.random.choice((31, 31, 31, 32, 10, 20, 1, 2)),
    "flag": lambda values: 0,
    "check_sum": lambda values: NOT_CHECKED,
    "sent_addr": lambda values: 0x7F000001,
    "broker_check_sum": lambda values: -1,
    "broker_config_id": lambda values: -2,
    "topic_meta_info_id": lambda values: -2,
    "curr_offset": lambda values: values.random.choice((-1, 0, 28)),
    "offset": lambda values: 28 * values.random.randrange(20),
    "end_offset": lambda values: 28 * values.random.randrange(40),
    "up_to": lambda values: 28 * values.random.randrange(20),
    "max_wait_ms": lambda values: values.random.choice((0, 1, 20)),
    "source_count": lambda values: values.random.choice((1, 2)),
    "total_count": lambda values: values.random.choice((1, 2)),
    "node_id": lambda values: values.random.choice((0, 1)),
    "session_time": lambda values: 1_700_000_000_000,
    "tls_port": lambda values: 8124,
    "err_code": lambda values: 200,
    "flow_check_id": lambda values: -2,
    "config_id": lambda values: -2,
}
"""Makers of the numbers that a correct peer sends, for fields in which a small random number would be refused."""
