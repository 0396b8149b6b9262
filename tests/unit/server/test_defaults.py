"""Defaults of settings: each stands in one place, wherever the setting is handed on."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from pytubemq.broker.settings import BrokerSettings
from pytubemq.master.settings import MasterSettings
from pytubemq.server.sections.broker import BrokerSection
from pytubemq.server.sections.log import LogSection
from pytubemq.server.sections.master import MasterSection
from pytubemq.storage.store_settings import StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import DataclassInstance

OTHERWISE: Final = {"listen", "advertised", "masters"}
"""Texts in the settings file, addresses in the rooms."""
PAIRS: Final[list[tuple[type[msgspec.Struct], type[DataclassInstance], set[str]]]] = [
    (MasterSection, MasterSettings, {"client_timeout_s", "auto_register_brokers"}),
    (BrokerSection, BrokerSettings, {"heartbeat_period_s", "retention_check_s"}),
    (BrokerSection, StoreSettings, {"durability", "check_packs_on_read", "segment_bytes"}),
]


def shared(section: type[msgspec.Struct], room: type[DataclassInstance]) -> dict[str, tuple[Any, Any]]:
    """Return the two defaults of each setting that both have."""
    of_room = {field.name: field.default for field in dataclasses.fields(room)}
    of_section = {field.name: field.default for field in msgspec.structs.fields(section)}
    return {name: (of_section[name], of_room[name]) for name in of_section.keys() & of_room.keys() - OTHERWISE}


@pytest.mark.parametrize(("section", "room", "some"), PAIRS)
def test_a_setting_that_is_handed_on_has_the_default_of_the_room_that_uses_it(
    section: type[msgspec.Struct], room: type[DataclassInstance], some: set[str]
) -> None:
    defaults = shared(section, room)
    assert some <= defaults.keys()
    assert {name: ours for name, (ours, _) in defaults.items()} == {name: its for name, (_, its) in defaults.items()}


@pytest.mark.parametrize(("section", "room", "some"), PAIRS)
def test_such_a_default_is_written_down_once(
    section: type[msgspec.Struct], room: type[DataclassInstance], some: set[str]
) -> None:
    written = dict(literals(section))
    assert [name for name in shared(section, room) if name in written] == []


def test_a_default_that_is_written_down_is_seen_as_one() -> None:
    assert dict(literals(LogSection)).keys() == {"level", "format", "story"}


def literals(section: type[msgspec.Struct]) -> Iterator[tuple[str, ast.expr]]:
    """Yield the settings of which the default names nothing that is defined elsewhere."""
    (body,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(body, ast.ClassDef)
    for line in body.body:
        if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value is not None):
            continue
        if not any(isinstance(part, ast.Name) for part in ast.walk(line.value)):
            yield line.target.id, line.value
