"""The original's statistics: its names and its habit of counting from one snapshot to the next, over our counters.

The invariants: our counters are never reset, since Prometheus reads them, too: a snapshot remembers their values; a
snapshot is taken at most every SNAPSHOT_S; a disabled part keeps its values and starts again when it is enabled.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, Final

from pytubemq.admin.webapi.envelope import date
from pytubemq.admin.webapi.methods import web_statistics
from pytubemq.admin.webapi.methods.web_statistics import NO_LEAST, NO_MOST, Since, WebStatistics
from pytubemq.model.ids import STORE_BASE
from pytubemq.model.offset import messages_between
from pytubemq.observe.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pytubemq.broker.inspect import PartitionFacts
    from pytubemq.broker.metrics import BrokerFacts

StoreKey = tuple[str, int]
"""A topic and the number of a store in it."""


@unique
class Part(Enum):
    """A part of the statistics that can be enabled and disabled."""

    SERVICE = "serviceStatus"
    WEB = "webAPI"
    STORES = "msgStore"


@dataclass(slots=True)
class _Store:
    """A store since the last snapshot, or since its first query, and its values between the two snapshots before."""

    since_ms: int
    messages: int
    data_bytes: int
    previous: dict[str, Any]


class Statistics:
    """The statistics of one Broker, for one page. Event loop only."""

    def __init__(self, *, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        now_ms = wall_ms()
        self._reset_ms = dict.fromkeys(Part, now_ms)
        self._closed: dict[Part, dict[str, Any]] = {}
        """The values that a disabled part shows."""
        self._counted: dict[str, int] = {}
        self._times: dict[str, Since] = {}
        self.web = WebStatistics(wall_ms=wall_ms)
        self._stores: dict[StoreKey, _Store] = {}
        self._stopped: tuple[int, dict[StoreKey, tuple[int, int]]] = 0, {}
        """The time when the stores were disabled, and their contents then."""

    # --- queries -------------------------------------------------------------------------------------------

    def metrics(self, facts: BrokerFacts, *, refresh: bool) -> dict[str, Any]:
        """Return `serviceStatus` and `webAPI`; with `refresh` they start again from now."""
        found = {"serviceStatus": self._service(facts), "webAPI": self.web.view()}
        if refresh:
            self._snapshot_service(facts)
            self.web.snapshot()
        return found

    def stores(self, partitions: Iterable[PartitionFacts], *, refresh: bool) -> dict[str, list[dict[str, Any]]]:
        """Return the stores of each topic, with their values between the last two snapshots, and since the last."""
        sums = _sums((p.topic, p.partition_id, p.max_offset, p.max_position) for p in partitions)
        now_ms = self._wall_ms()
        if Part.STORES in self._closed:
            now_ms, then = self._stopped
            sums = {key: then.get(key, (0, 0)) for key in sums}
        again = refresh and self._may_reset(Part.STORES, now_ms)
        found: dict[str, list[dict[str, Any]]] = {}
        for (topic, store_id), in_it in sums.items():
            store = self._store((topic, store_id), in_it, now_ms)
            closed = {"isClosed": Part.STORES in self._closed}
            current = self._current(store, in_it, now_ms)
            both = [{**store.previous, **closed}, {**current, **closed}]
            found.setdefault(topic, []).append({"storeId": store_id, "msgStore": both})
            if again:
                self._begin_anew(store, in_it, now_ms)
        if again:
            self._reset_ms[Part.STORES] = now_ms
        return found

    def forget_all_but(self, topics: Collection[str]) -> None:
        """Drop the statistics of topics that are no longer served."""
        self._stores = {key: store for key, store in self._stores.items() if key[0] in topics}

    def close(self, part: Part, facts: BrokerFacts) -> None:
        """Disable a part."""
        if part is Part.WEB:
            self.web.close()
        elif part not in self._closed:
            self._closed[part] = self._details(facts) if part is Part.SERVICE else {}
            if part is Part.STORES:
                self._stopped = self._wall_ms(), _in_stores(facts)
                for key, in_it in self._stopped[1].items():
                    self._store(key, in_it, self._stopped[0])

    def open(self, part: Part, facts: BrokerFacts) -> None:
        """Enable a part, which starts again from now."""
        if part is Part.WEB:
            self.web.open()
        if self._closed.pop(part, None) is None:
            return
        if part is Part.SERVICE:
            self._snapshot_service(facts, at_once=True)
        else:
            stopped_ms, then = self._stopped
            now_ms, now = self._wall_ms(), _in_stores(facts)
            for key, store in self._stores.items():
                store.previous = self._current(store, then.get(key, (0, 0)), stopped_ms)
                store.since_ms, (store.messages, store.data_bytes) = now_ms, now.get(key, (0, 0))
            self._reset_ms[Part.STORES] = now_ms

    # --- inside ---------------------------------------------------------------------------------------------

    def _may_reset(self, part: Part, now_ms: int) -> bool:
        return part not in self._closed and abs(now_ms - self._reset_ms[part]) >= web_statistics.SNAPSHOT_S * 1000

    def _service(self, facts: BrokerFacts) -> dict[str, Any]:
        return {
            "reset_time": date(self._reset_ms[Part.SERVICE]),
            "detailStatsClosed": Part.SERVICE in self._closed,
            **{name: value - self._counted.get(name, 0) for name, value in _counts(facts).items()},
            "consume_online_cnt": facts.registrations,
            **(self._closed.get(Part.SERVICE) or self._details(facts)),
        }

    def _details(self, facts: BrokerFacts) -> dict[str, Any]:
        return {name: since.row() for name, since in self._since(facts).items()}

    def _since(self, facts: BrokerFacts) -> dict[str, Since]:
        if not self._times:
            self._times = {name: Since(histogram) for name, histogram in _times(facts).items()}
        return self._times

    def _snapshot_service(self, facts: BrokerFacts, *, at_once: bool = False) -> None:
        now_ms = self._wall_ms()
        if at_once or self._may_reset(Part.SERVICE, now_ms):
            self._reset_ms[Part.SERVICE] = now_ms
            self._counted = _counts(facts)
            for since in self._since(facts).values():
                since.snapshot()

    def _store(self, key: StoreKey, in_it: tuple[int, int], now_ms: int) -> _Store:
        """Return a store's statistics; a new one counts from now on."""
        if key not in self._stores:
            self._stores[key] = _Store(now_ms, *in_it, _store_row(0, 0, now_ms, now_ms))
        return self._stores[key]

    def _current(self, store: _Store, in_it: tuple[int, int], end_ms: int) -> dict[str, Any]:
        return _store_row(in_it[0] - store.messages, in_it[1] - store.data_bytes, store.since_ms, end_ms)

    def _begin_anew(self, store: _Store, in_it: tuple[int, int], now_ms: int) -> None:
        store.previous = self._current(store, in_it, now_ms)
        store.since_ms, (store.messages, store.data_bytes) = now_ms, in_it


def _store_row(messages: int, data_bytes: int, since_ms: int, end_ms: int) -> dict[str, Any]:
    return {
        "reset_time": date(since_ms),
        "isClosed": False,
        "msg_append_size": {"count": messages, **_NO_EXTREMES},
        "msg_append_dlt": Since(Histogram()).row(),
        **dict.fromkeys(_NOT_HERE, 0),
        "file_total_msg_cnt": messages,
        "file_total_data_size": data_bytes,
        "file_total_index_size": 0,
        "file_flush_dlt": Since(Histogram()).row(),
        "file_flush_data_size": {"count": 0, **_NO_EXTREMES},
        "file_flush_msg_cnt": {"count": 0, **_NO_EXTREMES},
        **dict.fromkeys(_NOT_HERE_EITHER, 0),
        "end_time": date(end_ms),
    }


_NO_EXTREMES: Final = {"min": NO_LEAST, "max": NO_MOST}
_NOT_HERE: Final = (
    "msg_append_fail",
    "cache_data_full",
    "cache_index_full",
    "cache_count_full",
    "cache_time_full",
    "cache_flush_pending",
    "cache_realloc",
)
_NOT_HERE_EITHER: Final = (
    "file_data_seg",
    "file_index_seg",
    "file_meta_flush",
    "file_data_full",
    "file_count_full",
    "file_time_full",
)
"""Of the original's cache, and of files that all partitions of a store share; there are neither here."""
_NO_TIMES: Final = Histogram()


def _sums(parts: Iterable[tuple[str, int, int, int]]) -> dict[StoreKey, tuple[int, int]]:
    """Return messages and bytes ever stored in each store, by topic, partition id, end offset and end position."""
    sums: dict[StoreKey, tuple[int, int]] = {}
    for topic, partition_id, max_offset, max_position in parts:
        key = (topic, partition_id // STORE_BASE)
        messages, data_bytes = sums.get(key, (0, 0))
        sums[key] = messages + messages_between(0, max_offset), data_bytes + max_position
    return sums


def _in_stores(facts: BrokerFacts) -> dict[StoreKey, tuple[int, int]]:
    facts.look()
    return _sums((*key, extent.max_offset, extent.max_position) for key, extent in facts.extents.items())


def _counts(facts: BrokerFacts) -> dict[str, int]:
    state = facts.state
    return {
        "file_exc_cnt": state.path.stats.failed_writes,
        "zk_exc_cnt": 0,
        "offset_file_exc_cnt": 0,
        "broker_timeout_cnt": facts.forgotten,
        "broker_hb_exc_cnt": facts.master_failures,
        "consume_online_cnt": 0,
        "consume_timeout_cnt": state.counters.expired_registrations,
        "msg_put_overflow": state.path.stats.overflows,
    }


def _times(facts: BrokerFacts) -> Mapping[str, Histogram]:
    counters = facts.state.counters
    return {
        "file_sync_dlt": facts.state.path.stats.write_s,
        "offset_file_sync_dlt": _NO_TIMES,
        "zk_sync_dlt": _NO_TIMES,
        "msg_put_dlt": counters.put_s,
        "msg_get_dlt": counters.fetch_s,
        "msg_confirm_dlt": counters.confirm_s,
    }
