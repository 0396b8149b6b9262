"""The options that users give: the same in both clients and on the reference page, and described in both."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pytubemq
from pytubemq import Start, sync
from pytubemq.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "client.md"
TAKING: dict[str, Callable[..., Any]] = {
    "connect": pytubemq.connect,
    "producer": pytubemq.Tube.producer,
    "consumer": pytubemq.Tube.consumer,
    "push_consumer": pytubemq.Tube.push_consumer,
    "balance_consumer": pytubemq.Tube.balance_consumer,
    "reader": pytubemq.Tube.reader,
    "batches": pytubemq.Consumer.batches,
    "batches of a reader": pytubemq.Reader.batches,
}
TWINS: dict[str, Callable[..., Any]] = {
    "connect": sync.connect,
    "batches": sync.Consumer.batches,
    "batches of a reader": sync.Reader.batches,
    **{name: getattr(sync.Tube, name) for name in TAKING if hasattr(sync.Tube, name)},
}
COMMON = (
    "close_timeout_s: float = 5.0, fetch_interval_s: float = 0.0, max_messages_per_s: float | None = None, "
    "max_bytes_per_s: float | None = None"
)
FILTERS = "filters: Mapping[str, Sequence[str]] | Sequence[str] | None = None"
PLACE = "int | Start | str | datetime"
SIGNATURES = {
    "connect": "masters: str | Sequence[Address] | ClusterAddress, *, first_connect: FirstConnect = 'fail', "
    "request_timeout_s: float = 10.0, client_name: str = '', credentials: Credentials | None = None, "
    "known: Known | None = None, tls: TlsOptions | None = None",
    "producer": "self, topic: str, *, linger_s: float = 0.0, max_buffer_messages: int = 100000, "
    "max_buffer_bytes: int = 67108864, delivery_timeout_s: float = 60.0, close_timeout_s: float = 10.0, "
    "batching: bool = True, idempotent: bool = True",
    "consumer": f"self, group: str, topic: str, *topics: str, start: Start = LATEST, {FILTERS}, "
    f"confirm_timeout_s: float | None = 60.0, {COMMON}, bound: Bound | None = None",
    "push_consumer": "self, group: str, topic: str, *topics: str, handler: Handler, workers: int = 8, "
    "by_message: bool = False, on_error: OnError = 'retry', max_messages: int = 500, max_wait_s: float = 1.0, "
    f"max_bytes: int | None = None, start: Start = LATEST, {FILTERS}, {COMMON}, bound: Bound | None = None",
    "balance_consumer": "self, group: str, topic: str, *topics: str, node_id: int | None = None, "
    f"source_count: int | None = None, start: Start = LATEST, {FILTERS}, manual: bool = False, "
    f"confirm_timeout_s: float | None = None, {COMMON}, meta_check_s: float = 10.0, node_wait_s: float = 40.0",
    "reader": f"self, partition: Partition | str, *, start: {PLACE} = EARLIEST, end: {PLACE} | None = None, "
    "end_exists: bool = False, on_malformed: OnMalformed = 'raise', retry_for_s: float = 60.0, "
    "filters: Sequence[str] | None = None",
    "batches": "self, *, max_messages: int = 500, max_wait_s: float = 1.0, max_bytes: int | None = None, "
    "idle_timeout_s: float | None = None",
    "batches of a reader": "self, *, max_messages: int = 10000, max_wait_s: float = 1.0, "
    "max_bytes: int | None = 4194304, idle_timeout_s: float | None = None",
}


def shown(function: Callable[..., Any]) -> str:
    """The arguments of a function as `help` shows them, types without quotes, a `Start` by its name."""
    arguments = str(inspect.signature(function).replace(return_annotation=inspect.Signature.empty))
    for start in Start:
        arguments = arguments.replace(repr(start), start.name)
    return re.sub(r"(: )'([^']*)'", r"\1\2", arguments).removeprefix("(").removesuffix(")")


@pytest.mark.parametrize("name", TAKING)
def test_both_clients_show_each_option_with_its_type_and_default(name: str) -> None:
    assert shown(TAKING[name]) == SIGNATURES[name]
    assert shown(TWINS[name]) == SIGNATURES[name]


@pytest.mark.parametrize("name", TAKING)
def test_both_clients_describe_each_option(name: str) -> None:
    for function in (TAKING[name], TWINS[name]):
        _, _, arguments = (inspect.getdoc(function) or "").partition("Args:\n")
        described = {
            one for names in re.findall(r"^    ([\w, ]+):", arguments, re.MULTILINE) for one in names.split(", ")
        }
        assert (
            set(inspect.signature(function).parameters) - {"self", "topics"} <= described
        )  # `topic` says what the rest are


def test_an_option_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'timeout'"):
        pytubemq.connect("127.0.0.1:8715", timeout=3)  # type: ignore[call-arg]


def test_an_option_that_makes_no_sense_is_refused_before_anything_is_connected() -> None:
    with pytest.raises(ConfigError, match="request_timeout_s is 0"):
        sync.connect("127.0.0.1:8715", request_timeout_s=0)


def rows() -> Iterator[tuple[str, str, str]]:
    """The options of the reference page: what takes them, their names, their defaults."""
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        found = re.match(r"(?:tube\.)?(\w+)\(", section)
        for names, default in re.findall(r"^\| (`.*?`) \| ?(.*?) ?\| ", section, re.MULTILINE):
            if found is not None and found[1] in TAKING:
                yield found[1], names, default


def value_of(text: str) -> object:
    """The value that a default on the page stands for."""
    text = text.strip("`")
    number, _, unit = text.replace(",", "").partition(" ")
    if number.isdigit():
        return int(number) << 20 if unit == "MiB" else int(number)
    return {"none": None, "True": True, "False": False, "Start.LATEST": Start.LATEST}.get(text, text.strip('"'))


def test_the_reference_page_has_every_default_as_it_is() -> None:
    found = list(rows())
    assert {name for name, _, _ in found} == {
        "connect", "producer", "consumer", "push_consumer", "balance_consumer"
    }  # fmt: skip
    for function, names, text in found:
        parameters = inspect.signature(TAKING[function]).parameters
        options = re.findall(r"`(\w+)`", names)
        defaults = re.split(r" and |, ", text)
        for option, default in zip(options, defaults if len(defaults) > 1 else defaults * len(options), strict=True):
            actual = parameters[option].default
            if default:
                assert actual == value_of(default), (function, option)
            else:
                assert actual in (None, inspect.Parameter.empty), (function, option)
