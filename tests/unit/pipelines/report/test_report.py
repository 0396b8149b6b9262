"""The report of a run: what it says, what it hides, and that it stands alone."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.pipelines.events import Failed, Finished, RunStatus, Totals, event_as_json
from pytubemq.pipelines.report.configuration import as_yaml, defaults_in_force
from pytubemq.pipelines.report.page import _parts, _rate, _seconds, _whole, page
from pytubemq.pipelines.report.plots import HEIGHT, MOST_BARS, Scale, Series, bars, line, together
from pytubemq.pipelines.report.record import MOST_BATCHES, RunRecord, audit_rows, event_of, read_record
from pytubemq.pipelines.report.redact import redact
from pytubemq.pipelines.state.files import state_files
from tests.unit.pipelines.operate.state import NOW_S, batch, started, write_state

if TYPE_CHECKING:
    from pathlib import Path


class Tags(HTMLParser):
    """All tags, and whether each that was opened was closed."""

    VOID = frozenset({"meta", "br", "line", "rect", "circle", "path"})

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def record_of(*events: Any) -> RunRecord:
    record = RunRecord()
    for event in events:
        record.take(event)
    return record


def test_the_page_stands_alone_and_nothing_in_it_runs() -> None:
    text = page(record_of(started(), *(batch(number) for number in range(20))))
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    names = {tag for tag, _ in tags.seen}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    assert not any(key in attributes for _, attributes in tags.seen for key in ("src", "href", "onload", "onclick"))
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "default-src 'none'" in text


def test_each_figure_of_the_run_is_on_the_page() -> None:
    record = record_of(started(), batch(0), batch(1), Finished(RunStatus.FINISHED, Totals(), 9.0, NOW_S + 9))
    record.guarantees = [("lake", "exactly once", "each batch is a directory")]
    text = page(record)
    for shown in ("finished", "2,000", "1,980", "exactly once", "each batch is a directory", "decode.json", "batch 1"):
        assert shown in text


def test_the_error_of_a_failed_run_is_told_without_its_secret() -> None:
    failed = Failed("no access to jdbc:x://h/d?password=hunter2", "ask <them>", None, Totals(), 1.0, NOW_S + 1)
    text = page(record_of(started(), failed))
    assert "no access to" in text
    assert "hunter2" not in text
    assert "ask &lt;them&gt;" in text


@given(st.text(max_size=40))
def test_text_from_outside_is_escaped_wherever_it_stands(text: str) -> None:
    evil = f"<script>{text}</script>\"'"
    record = record_of(
        started(pipeline=evil, state=evil, sinks=(evil,)),
        batch(0, parts={evil: 1.0}, rows_out={evil: 5}, reasons={evil: 1}, query=evil, replayed=(evil,)),
        Failed(evil, evil, None, Totals(), 1.0, NOW_S),
    )
    record.spec = {"name": evil}
    record.audit = [{"stream": evil, "minute": evil, "read": 1, "rejected": 0, "written": {evil: 1}}]
    record.guarantees = [(evil, evil, evil)]
    tags = Tags()
    tags.feed(page(record))
    assert "script" not in {tag for tag, _ in tags.seen}
    assert tags.open == []


def test_the_audit_says_of_which_time_its_minutes_are() -> None:
    record = record_of(started())
    record.audit = [{"stream": "t", "minute": "2026-02-02T02:40", "read": 1, "rejected": 0, "written": {}}]
    assert "of their message's time (msgTime, else its arrival; with <code>audit: COLUMN</code>" in page(record)
    record.spec = {"decode": {"format": "inlong-msg"}}
    assert "with <code>audit: inlongmsg_time</code> their own)" in page(record)
    record.spec = {"audit": {"time": "<at>"}}
    assert "minute of the time in their column &lt;at&gt;, for the batches" in page(record)


def test_configuration_is_shown_and_secrets_in_it_are_not() -> None:
    shown = redact(
        {"url": "jdbc:postgresql://h/d?user=u&password=p1", "options": {"password": "p2", "ref": "${env:PW}"},
         "list": [{"secret": ["p3"]}], "port": 5432, "token": 77, "flag": True}
    )  # fmt: skip
    assert not re.search(r"p1|p2|p3|77", str(shown))
    assert (shown["port"], shown["flag"], shown["options"]["ref"]) == (5432, True, "${env:PW}")


def test_a_run_is_read_again_from_its_state(tmp_path: Path) -> None:
    record = read_record(state_files(str(write_state(tmp_path, status="finished", ended=NOW_S + 7))))
    assert (record.pipeline, record.status, record.rows_in, record.seconds) == (
        "orders",
        RunStatus.FINISHED,
        3_000,
        7.0,
    )
    assert record.audit == [
        {"stream": "web", "minute": "2026-02-02T02:40", "read": 3_000, "rejected": 30, "written": {"lake": 2_970}}
    ]
    text = page(record)
    assert "2,970" in text
    assert "hunter2" not in text


def entry(*read: tuple[str, str | None, int], **written: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "audit": [{"stream": stream, "minute": minute, "read": rows, "rejected": 1} for stream, minute, rows in read],
        "sinks": {sink: {"rows": 0, "audit": lines} for sink, lines in written.items()},
    }


def test_what_was_read_and_what_was_written_meet_in_one_row() -> None:
    lines = [{"minute": "m", "rows": 9}]
    assert audit_rows([entry(("orders", "m", 10), lake=lines)]) == [
        {"stream": "orders", "minute": "m", "read": 10, "rejected": 1, "written": {"lake": 9}}
    ]
    # a sink's rows that do not tell of which stream they are stand beside the sum; `topic` may be where they go to
    other = [{"stream": "elsewhere", "minute": "m", "rows": 7}]
    told = [{"stream": "a", "minute": "m", "rows": 3}, {"stream": "b", "minute": "m", "rows": 5}]
    rows = audit_rows([entry(("a", "m", 4), ("b", "m", 6), lake=lines, bus=other, raw=told)])
    assert [(row["stream"], row["read"], row["rejected"], row["written"]) for row in rows] == [
        ("(all streams)", 10, 2, {"lake": 9, "bus": 7, "raw": 8}),
        ("a", 4, 1, {"raw": 3}),
        ("b", 6, 1, {"raw": 5}),
    ]


def test_the_counts_of_every_query_of_a_run_are_told(tmp_path: Path) -> None:
    place = write_state(tmp_path, status="finished")
    (place / "progress.jsonl").write_text(json.dumps(event_as_json(started(queries=("main", "step-day")))))
    (place / "ledger" / "step-day").mkdir()
    told = entry(days=[{"minute": "2026-02-02T02:40", "rows": 7}])
    (place / "ledger" / "step-day" / "0.json").write_text(json.dumps(told))
    [row] = read_record(state_files(str(place))).audit
    assert row["written"] == {"lake": 2_970, "days": 7}


def test_what_several_queries_read_counts_once(tmp_path: Path) -> None:
    each: list[Any] = [batch(n, query=query, seconds=2.0) for n in range(3) for query in ("main", "step-day")]
    first = started(queries=("main", "step-day"))
    record = record_of(first, *reversed(each))
    assert (record.rows_in, record.rows_per_s, record.batch_count, record.rows_out) == (
        3_000,
        500.0,
        6,
        {"lake": 5_940},
    )
    assert record_of(started(queries=("step-day", "log-x")), *each).rows_in == 3_000
    place = write_state(tmp_path, status="finished")
    for lines in ([first, *each], each[1:]):  # the oldest lines go when there are many
        (place / "progress.jsonl").write_text("\n".join(json.dumps(event_as_json(line)) for line in lines))
        found = read_record(state_files(str(place)))
        assert found.rows_in == 1_000 * sum(line in lines for line in each[::2])


def test_events_are_the_same_after_a_line_of_json() -> None:
    assert event_of(event_as_json(batch(3))) == batch(3)
    assert event_of({"event": "SomethingNewer"}) is None
    assert event_of({"event": "BatchDone", "batch_id": 1}) is None


def test_a_long_run_is_coarser_and_its_sums_are_the_same() -> None:
    record = record_of(started(), *(batch(number) for number in range(MOST_BATCHES + 1_001)))
    assert len(record.batches) <= MOST_BATCHES
    assert sum(entry.rows_in for entry in record.batches) == record.rows_in == (MOST_BATCHES + 1_001) * 1_000
    assert record.batch_count == MOST_BATCHES + 1_001
    assert page(record).count("<rect") <= MOST_BARS * (1 + 4 + 1)


@given(st.integers(0, 5_000))
def test_all_batches_are_drawn_in_at_most_so_many_bars(count: int) -> None:
    runs = together(count)
    assert len(runs) <= MOST_BARS
    assert [n for run in runs for n in run] == list(range(count))


_VALUES = st.lists(st.one_of(st.none(), st.floats(0, 1e12), st.just(0.0)), min_size=1, max_size=30)


@given(_VALUES)
def test_plots_are_sound_and_what_is_drawn_lies_inside(values: list[float | None]) -> None:
    places = [str(n) for n in range(len(values))]
    for plot in (
        bars("a < b", places, [Series("x&y", values), Series("z", values)]),
        line("l", places, [Series("x", values)]),
    ):
        tree = ElementTree.fromstring(plot)
        for shape in tree.iter("rect"):
            assert -0.2 <= float(shape.attrib["y"]) <= HEIGHT + 0.2
            assert float(shape.attrib["height"]) >= 0


@pytest.mark.parametrize(("show", "whole"), [(_whole, True), (_seconds, False), (_rate, False)])
@given(most=st.one_of(st.integers(1, 30), st.floats(1e-6, 1e9), st.integers(1, 10**12)))
def test_no_two_lines_of_an_axis_bear_the_same_label(show: Any, whole: bool, most: float) -> None:
    value = float(round(most) or 1) if whole else most
    for plot in (bars, line):
        labels = labels_of(plot("t", ["a", "b"], [Series("x", [value, 0.0])], Scale(show, whole=whole)))
        assert len(set(labels)) == len(labels) >= 2
        assert labels[0].split()[0] == "0"


def labels_of(plot: str) -> list[str]:
    tree = ElementTree.fromstring(plot)
    return [each.text or "" for box in tree.iter("div") if box.get("class") == "ticks" for each in box]


def test_one_record_is_not_divided() -> None:
    assert labels_of(bars("t", ["a"], [Series("x", [1.0])], Scale(_whole, whole=True))) == ["0", "1"]
    assert labels_of(bars("t", ["a"], [Series("x", [0.5])], Scale(_seconds)))[-1] == "0.6 s"


def test_a_plot_of_nothing_says_so() -> None:
    assert "nothing to draw" in bars("t", [], [])
    assert "nothing to draw" in bars("t", ["a"], [Series("x", [0.0])])
    assert "nothing to draw" in line("t", ["a"], [Series("x", [0.0])])
    assert "unknown" in line("t", ["a"], [Series("x", [None])])


def test_a_single_batch_has_its_name_below_its_bar_and_no_plot_of_a_dot() -> None:
    text = page(record_of(started(), batch(0, lag_rows=0, lag_s=0.0)))
    assert text.count('<div class="each"><span>batch 0</span></div>') == text.count("<svg") == 3
    assert "no batch left messages waiting" in text
    assert "Seconds behind" not in text
    assert "dot l0" not in page(record_of(started(), batch(0)))


def test_letters_of_a_plot_are_not_scaled_with_it() -> None:
    assert "<text" not in page(record_of(started(), *(batch(number) for number in range(20))))


def test_a_rejected_record_is_told_with_an_example_its_place_and_the_command_that_shows_it() -> None:
    examples = {"decode.json": "column id: <late> is not a valid BIGINT"}
    record = record_of(started(), batch(0, examples=examples), batch(1, examples={"decode.json": "another"}))
    record.spec, record.look = {"decode": {"format": "json"}}, "pytubemq pipeline dlq show orders.yaml -n 10"
    text = page(record)
    assert "example: column id: &lt;late&gt; is not a valid BIGINT" in text
    assert "another" not in text
    assert "parquet: /state/dead_letter" in text
    assert "pytubemq pipeline dlq show orders.yaml -n 10" in text
    record.spec = {"decode": {"format": "json"}, "dead_letter": {"format": "jdbc", "table": "bad"}}
    assert "jdbc: bad" in page(record)
    assert "dlq show" not in page(record)
    record.spec = {"decode": {"format": "json", "on_error": "drop"}}
    assert "They were dropped" in page(record)


def test_the_parts_of_a_batch_are_told_in_words() -> None:
    parts = {"addBatch": 0.9, "latestOffset": 0.1, "walCommit": 0.1, "commitOffsets": 0.1, "queryPlanning": 0.1}
    text = page(record_of(started(), batch(0, parts=parts)))
    assert not [name for name in parts if name in text]
    assert "asking for the newest offsets" in text


def test_a_column_in_which_nothing_stands_is_left_out() -> None:
    assert "written before" not in page(record_of(started(), batch(0)))
    assert "written before" in page(record_of(started(), batch(0, replayed=("lake",))))


def test_the_configuration_is_in_the_order_of_a_file_and_says_what_held_by_itself() -> None:
    spec = {
        "steps": [{"sql": "SELECT *\nFROM input", "name": "s"}], "name": "orders", "decode": {"format": "json"},
        "source": {"topics": ["t"], "limit": {"rows": 5}}, "sinks": [{"name": "lake", "format": "parquet"}],
    }  # fmt: skip
    shown = as_yaml(spec)
    tops = [line.partition(":")[0] for line in shown.splitlines() if line[0].isalpha()]
    assert tops == ["name", "source", "decode", "steps", "sinks"]
    assert "    SELECT *\n    FROM input\n" in shown
    held = defaults_in_force(spec)
    assert (held["decode.on_error"], held["sinks.lake.on_schema_change"]) == ("dead_letter", "fail")
    told = record_of(started())
    told.spec = {**spec, "decode": {"format": "json"}}  # as it is of a file that says on_error: dead_letter, too
    assert "Keys with default values, written in the file or not" in page(told)
    assert "decode.on_error" not in defaults_in_force({**spec, "decode": {"format": "json", "on_error": "fail"}})


def test_a_run_that_is_read_again_took_as_long_as_it_told_itself(tmp_path: Path) -> None:
    told = record_of(started(began_s=NOW_S - 11.5), *(batch(number) for number in range(3)))
    told.take(Finished(RunStatus.FINISHED, Totals(), 18.5, NOW_S + 7))
    facts: dict[str, Any] = {
        "started": NOW_S - 11.5,
        "ready": NOW_S,
        "sinks": ["lake"],
        "queries": ["main", "step-day"],
    }
    read = read_record(state_files(str(write_state(tmp_path, status="finished", ended=NOW_S + 7, **facts))))
    told.state, told.spec, told.audit, told.queries = read.state, read.spec, read.audit, read.queries
    assert page(told) == page(read)
    assert (read.seconds, read.queries) == (18.5, ("main", "step-day"))
    assert "18.5 s" in page(read)
    assert "11.5 s" in page(read)


def test_the_parts_of_a_batchs_time_add_up_to_it() -> None:
    parts = {"addBatch": 0.9, "read": 0.4, "sink:lake": 0.3, "walCommit": 0.05}
    series = {one.name: one.values[0] for one in _parts([batch(0, parts=parts, seconds=1.0)])}
    assert sum(value or 0.0 for value in series.values()) == pytest.approx(1.0)
    assert series["steps and ledger"] == pytest.approx(0.2)
    assert series["other"] == pytest.approx(0.05)
