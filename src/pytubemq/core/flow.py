"""Flow-control rules: how fast a group may read, how long it waits after reads that brought little.

The rules are the original's JSON: an array of `{"type": t, "rule": [...]}`. Type 0 limits what a partition gives per
minute while its reader is far behind, type 1 spaces reads that bring nothing, type 3 spaces reads that bring something.
Type 2 is dead: read over and never written.

The invariants: rules that are in force were all checked, value by value; they are in the order in which they are
tried (type 0 by start, type 1 by count, largest first), so that the first that fits decides; text, parsed and written
again, is in its one normal form. A lag is compared in bytes with MiB, as C++ does (Java compares bytes with the bare
number).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pytubemq.errors import FormatError
from pytubemq.model.limits import MAX_FLOW_RULES, MAX_FLOW_RULES_CHARS, MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEAD_TYPE: Final = 2
_MOST: Final = 2**31 - 1
# The original's bounds, so that what its Master takes is taken here, and no client of it refuses what we send.
_LEAST_LAG_MIB: Final = 21
_LEAST_PAUSE_MS: Final = 200
_MOST_LOW_FETCH_MS: Final = 300_000
_ZONE_MINUTES: Final = 8 * 60
"""The clock of the rules is GMT+8, wherever a process runs (the original's)."""
_TIME: Final = re.compile(r"(\d{1,2}):(\d{1,2})", re.ASCII)
# Twelve digits are more than any bound here, and few enough for `int`.
_NUMBER: Final = re.compile(r"-?\d{1,12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class DataLimit:
    """Type 0: from `start_hhmm` to `end_hhmm` (both included), a reader more than `lag_mib` behind gets `limit_mib` per
    minute, and waits `freq_ms` when it has had that.
    """

    start_hhmm: int
    end_hhmm: int
    lag_mib: int
    limit_mib: int
    freq_ms: int

    @property
    def limit_bytes(self) -> int:
        """Bytes that a partition gives in a minute; 0 = nothing."""
        return self.limit_mib * MIB

    def fits(self, lag_bytes: int, hhmm: int) -> bool:
        """True if the rule is for a reader so far behind at this time of day."""
        # The lag must be larger, not as large; ends are included: both as in the clients, which apply the rules, too.
        return self.start_hhmm <= hhmm <= self.end_hhmm and lag_bytes > self.lag_mib * MIB


@dataclass(frozen=True, slots=True)
class EmptyReads:
    """Type 1: after `zero_count` reads in a row that brought nothing, the next waits `freq_ms`."""

    zero_count: int
    freq_ms: int


@dataclass(frozen=True, slots=True)
class LowFetch:
    """Type 3: the pause after a read that brought something, in ms: without a filter, with one, and with one where
    little is left to read.
    """

    norm_ms: int
    filter_ms: int
    min_data_filter_ms: int


@dataclass(frozen=True, slots=True)
class FlowRules:
    """All rules of a cluster or a group, in the order in which they are tried."""

    data_limits: tuple[DataLimit, ...] = ()
    empty_reads: tuple[EmptyReads, ...] = ()
    low_fetch: LowFetch | None = None

    @property
    def count(self) -> int:
        """Types present (the original's `ruleCnt`)."""
        return bool(self.data_limits) + bool(self.empty_reads) + (self.low_fetch is not None)

    def data_limit(self, lag_bytes: int, hhmm: int) -> DataLimit | None:
        """Return the limit for a reader so far behind at this time of day (`rule_clock`); None = as fast as it can."""
        # Sorted by start, so of rules that overlap the one that began earliest decides.
        for rule in self.data_limits:
            if rule.fits(lag_bytes, hhmm):
                return rule
        return None

    def empty_read_pause_ms(self, count: int, otherwise: int) -> int:
        """Return the pause after `count` reads in a row that brought nothing; `otherwise` where no rule speaks."""
        # The largest count comes first (Java's order). By rising counts, as C++ sorts them, the smallest would always
        # win.
        for rule in self.empty_reads:
            if count >= rule.zero_count:
                return rule.freq_ms
        return otherwise


NO_FLOW_RULES: Final = FlowRules()


def rule_clock(epoch_s: float) -> int:
    """Return the rules' time of day, 24 h, as the number HHMM, from seconds since 1970."""
    # Whole minutes, so that a rule holds through the last one that it names.
    minutes = (int(epoch_s // 60) + _ZONE_MINUTES) % (24 * 60)
    return minutes // 60 * 100 + minutes % 60


def parse_rules(text: str) -> FlowRules:
    """Parse rules from their JSON; blank text and `[]` are none. FormatError names rule, field and bound."""
    # One blank is what a Master writes for rules that are switched off.
    if not text.strip():
        return NO_FLOW_RULES
    # Before the JSON is decoded, so that decoding costs no more than a bounded text can.
    if len(text) > MAX_FLOW_RULES_CHARS:
        raise FormatError(f"flow rules have {len(text)} characters, {MAX_FLOW_RULES_CHARS} are allowed")
    found: dict[int, list[Any]] = {}
    for number, entry in enumerate(_array(_decode(text), "flow rules")):
        where = f"flow rules, entry {number}"
        fields = _object(entry, where, known=("type", "rule"))
        kind = _number(fields, "type", where, least=0, most=3)
        # The clients keep only the last entry of a type, so two would silently lose the rules of the first.
        if kind in found:
            raise FormatError(f"{where}: type {kind} is given twice; put its rules into one entry")
        found[kind] = _array(fields.get("rule", []), f"{where}: `rule`")
        if not found[kind] and kind != _DEAD_TYPE:
            raise FormatError(f"{where}: type {kind} has no rule; give one, or leave the entry out")
        if len(found[kind]) > MAX_FLOW_RULES:
            raise FormatError(f"{where}: {len(found[kind])} rules given, {MAX_FLOW_RULES} are allowed")
    limits = [_data_limit(entry, f"type 0, rule {number}") for number, entry in enumerate(found.get(0, ()))]
    empties = [_empty_reads(entry, f"type 1, rule {number}") for number, entry in enumerate(found.get(1, ()))]
    return FlowRules(
        data_limits=tuple(sorted(limits, key=lambda rule: rule.start_hhmm)),
        empty_reads=tuple(sorted(empties, key=lambda rule: -rule.zero_count)),
        low_fetch=_low_fetch(found.get(3, [])),
    )


def format_rules(rules: FlowRules) -> str:
    """Format rules as JSON in normal form: types ascending, empty ones left out, keys as the original names them."""
    entries: list[Mapping[str, Any]] = []
    if rules.data_limits:
        entries.append({"type": 0, "rule": [_written_limit(rule) for rule in rules.data_limits]})
    if rules.empty_reads:
        entries.append(
            {"type": 1, "rule": [{"zeroCnt": rule.zero_count, "freqInMs": rule.freq_ms} for rule in rules.empty_reads]}
        )
    if rules.low_fetch is not None:
        low = rules.low_fetch
        rule = {
            "normFreqInMs": low.norm_ms,
            "filterFreqInMs": low.filter_ms,
            "minDataFilterFreqInMs": low.min_data_filter_ms,
        }
        entries.append({"type": 3, "rule": [rule]})
    return msgspec.json.encode(entries).decode()


def _written_limit(rule: DataLimit) -> Mapping[str, Any]:
    return {
        "start": f"{rule.start_hhmm // 100:02}:{rule.start_hhmm % 100:02}",
        "end": f"{rule.end_hhmm // 100:02}:{rule.end_hhmm % 100:02}",
        "dltInM": rule.lag_mib,
        "limitInM": rule.limit_mib,
        "freqInMs": rule.freq_ms,
    }


def _data_limit(entry: Any, where: str) -> DataLimit:
    fields = _object(entry, where, known=("start", "end", "dltInM", "limitInM", "freqInMs"))
    start, end = _time(fields, "start", where), _time(fields, "end", where)
    # Java's bound; C++ and Go take a rule of a single minute as well.
    if start >= end:
        raise FormatError(f"{where}: start {fields['start']} must be before end {fields['end']}")
    return DataLimit(
        start_hhmm=start,
        end_hhmm=end,
        lag_mib=_number(fields, "dltInM", where, least=_LEAST_LAG_MIB),
        limit_mib=_number(fields, "limitInM", where, least=0),
        freq_ms=_number(fields, "freqInMs", where, least=_LEAST_PAUSE_MS),
    )


def _empty_reads(entry: Any, where: str) -> EmptyReads:
    fields = _object(entry, where, known=("zeroCnt", "freqInMs"))
    return EmptyReads(
        zero_count=_number(fields, "zeroCnt", where, least=1),
        freq_ms=_number(fields, "freqInMs", where, least=0),
    )


def _low_fetch(entries: list[Any]) -> LowFetch | None:
    # The clients keep one such rule, the last.
    if len(entries) > 1:
        raise FormatError(f"type 3: {len(entries)} rules given, 1 is allowed")
    if not entries:
        return None
    where = "type 3, rule 0"
    fields = _object(entries[0], where, known=("normFreqInMs", "filterFreqInMs", "minDataFilterFreqInMs"))
    if not fields:
        raise FormatError(f"{where}: give normFreqInMs, or filterFreqInMs and minDataFilterFreqInMs")
    # The original takes both or none.
    if ("filterFreqInMs" in fields) != ("minDataFilterFreqInMs" in fields):
        raise FormatError(f"{where}: filterFreqInMs and minDataFilterFreqInMs go together, one is missing")

    def pause(name: str) -> int:
        # 0, not "off", where it is absent: to the clients a rule that is there is on.
        return _number(fields, name, where, least=0, most=_MOST_LOW_FETCH_MS) if name in fields else 0

    low = LowFetch(pause("normFreqInMs"), pause("filterFreqInMs"), pause("minDataFilterFreqInMs"))
    # The original's bound: where little is left to find, a reader waits longer and not less.
    if low.min_data_filter_ms < low.filter_ms:
        raise FormatError(
            f"{where}: minDataFilterFreqInMs is {low.min_data_filter_ms}, "
            f"it must be at least filterFreqInMs ({low.filter_ms})"
        )
    return low


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    # Text of a peer or a person: arrays nested deep enough end in RecursionError, lone surrogates in UnicodeError.
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise FormatError(f"flow rules are not JSON: {error}") from error


def _array(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise FormatError(f"{where} must be a JSON array")
    return value


def _object(value: Any, where: str, *, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{where} must be a JSON object")
    # A misspelt name must not become a rule without its limit.
    for name in value:
        if name not in known:
            raise FormatError(f"{where} has an unknown field {name[:40]!r}; known are {', '.join(known)}")
    return value


def _number(fields: Mapping[str, Any], name: str, where: str, *, least: int, most: int = _MOST) -> int:
    value = _given(fields, name, where)
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):  # as lenient as the original
        value = int(value)
    # To Python `true` is an int, 1.
    if not isinstance(value, int) or isinstance(value, bool):
        raise FormatError(f"{where}: {name} must be a whole number")
    if not least <= value <= most:
        raise FormatError(f"{where}: {name} is {value}, it must be from {least} to {most}")
    return value


def _time(fields: Mapping[str, Any], name: str, where: str) -> int:
    value = _given(fields, name, where)
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    # 24 is an hour to the original: with 24:00 as its end a rule holds until midnight.
    if match is None or int(match[1]) > 24 or int(match[2]) > 59:
        raise FormatError(f"{where}: {name} must be a time HH:MM from 00:00 to 24:59")
    return int(match[1]) * 100 + int(match[2])


def _given(fields: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in fields:
        raise FormatError(f"{where} has no {name}")
    return fields[name]
