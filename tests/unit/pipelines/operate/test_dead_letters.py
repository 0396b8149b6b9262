"""Dead letters in Parquet files: what is listed, chosen and dropped, and what a redrive is made of."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pytubemq.sync
from pytubemq.decode.dead_letter_columns import DEAD_LETTER_ARROW
from pytubemq.errors import ConfigError, NotFoundError
from pytubemq.pipelines.file.model import DeadLetter, Decode, Pipeline, Sink, Source, Step
from pytubemq.pipelines.operate import dead_letters
from pytubemq.pipelines.operate.dead_letter_store import dead_letters_of
from pytubemq.pipelines.operate.dead_letters import Choice, DeadLetterFiles, dead_letter_rows
from pytubemq.pipelines.operate.redrive import stage_redrive, unfinished_redrive
from pytubemq.server.cluster import ThreadedCluster

if TYPE_CHECKING:
    from pathlib import Path


def letter(offset: int | None, reason: str = "decode.json", **more: Any) -> dict[str, Any]:
    found = {
        "reason": reason,
        "detail": "no JSON",
        "stage": "message",
        "topic": "t",
        "brokerId": 1,
        "partition": 0,
        "offset": offset,
        "record": None,
        "timestamp": datetime(2026, 2, 2, 2, 40, (offset or 0) % 60, tzinfo=UTC),
        "raw": b"bad",
        "attributes": [("k", "v")],
    }
    return found | more


def write(place: Path, batch: int, *letters: dict[str, Any]) -> None:
    directory = place / f"batch=q1-{batch:06d}"
    directory.mkdir(parents=True)
    (directory / "_SUCCESS").write_bytes(b"")
    (directory / ".part-0.parquet.crc").write_bytes(b"sum")
    pq.write_table(pa.Table.from_pylist(list(letters), schema=DEAD_LETTER_ARROW), directory / "part-0.parquet")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write(tmp_path, 0, *(letter(n) for n in range(10)))
    write(tmp_path, 1, letter(10, "decode.csv.columns"), letter(11), letter(12, record=3, stage="record", raw=b"\xff"))
    hidden = tmp_path / "_staging" / "batch=q1-000002"
    hidden.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([letter(99)], schema=DEAD_LETTER_ARROW), hidden / "part-0.parquet")
    return tmp_path


def pipeline_of(tmp_path: Path, place: Path) -> Pipeline:
    return Pipeline(
        "orders",
        Source(topics=("t",), columns=("offset",)),
        decode=Decode("json", "id BIGINT"),
        sinks=(Sink("lake", "parquet", path="/lake"),),
        dead_letter=DeadLetter(path=str(place), max_rows=5),
        state=str(tmp_path / "state"),
    )


def test_reasons_are_listed_with_the_most_frequent_first(place: Path) -> None:
    first, second = DeadLetterFiles(str(place)).by_reason()
    assert (first["reason"], first["records"], first["topics"]) == ("decode.json", 12, ["t"])
    assert (first["first"], first["last"]) == ("2026-02-02T02:40:00Z", "2026-02-02T02:40:12Z")
    assert (second["reason"], second["records"]) == ("decode.csv.columns", 1)


def test_the_beginning_of_a_reason_means_all_that_is_below_it(place: Path) -> None:
    files = DeadLetterFiles(str(place))
    assert files.take(Choice("decode")).rows.num_rows == 13
    assert files.take(Choice("decode.csv")).rows.num_rows == 1
    assert files.take(Choice("dec")).rows.num_rows == 0
    assert files.take(Choice("decode.json", most=11)).rows.num_rows == 11


def test_each_dead_letter_is_shown_with_its_place_and_its_bytes(place: Path) -> None:
    rows = dead_letter_rows(DeadLetterFiles(str(place)).take(Choice()))
    assert (rows[0]["id"], rows[0]["raw"], rows[0]["attributes"]) == ("1:t:0:0", "bad", {"k": "v"})
    assert (rows[-1]["id"], rows[-1]["raw"]) == ("1:t:0:12#3", {"base64": "/w=="})


def test_dropped_twice_is_dropped_once_and_every_batch_keeps_its_directory(place: Path) -> None:
    files = DeadLetterFiles(str(place))
    taken = files.take(Choice("decode.json"))
    assert (files.drop(dict(taken.keys)), files.drop(dict(taken.keys))) == (12, 0)
    assert [row["reason"] for row in files.by_reason()] == ["decode.csv.columns"]
    assert len(files.files()) == 2
    assert not list(place.rglob("*.crc"))[1:]  # a file that was not changed keeps its own


def test_one_of_many_without_an_offset_leaves_and_the_others_stay(tmp_path: Path) -> None:
    alike = [letter(None, timestamp=None) for _ in range(3)]
    write(tmp_path, 0, *alike, letter(None, raw=b"other"), letter(None, attributes=[("k", "w")]))
    files = DeadLetterFiles(str(tmp_path))
    first = files.take(Choice(most=1))
    for _ in range(2):  # killed behind the drop, it is done again
        files.drop(dict(first.keys))
        assert files.take(Choice()).rows.num_rows == 4
    files.drop(dict(files.take(Choice(most=3)).keys))
    assert files.take(Choice()).rows["attributes"].to_pylist() == [[("k", "w")]]


def test_dropping_stops_where_another_has_dropped_already(tmp_path: Path) -> None:
    write(tmp_path, 0, *(letter(None) for _ in range(3)))
    files = DeadLetterFiles(str(tmp_path))
    one, all_of_them = files.take(Choice(most=1)), files.take(Choice())
    assert (files.drop(dict(all_of_them.keys)), files.drop(dict(one.keys))) == (3, 0)


def test_what_is_taken_at_once_is_bounded_and_the_rest_is_told_of(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = DeadLetterFiles(str(place))
    assert not files.take(Choice()).more
    assert not files.take(Choice(most=4)).more
    monkeypatch.setattr(dead_letters, "MOST_TAKEN", 4)
    monkeypatch.setattr(dead_letters, "READ_ROWS", 3)
    taken = files.take(Choice(most=11))
    assert (taken.rows.num_rows, taken.more) == (4, True)
    assert files.drop(dict(taken.keys)) == 4
    assert files.take(Choice("decode.csv")).rows.num_rows == 1
    monkeypatch.setattr(dead_letters, "MOST_TAKEN_BYTES", 7)
    taken = files.take(Choice())
    assert (taken.rows.num_rows, taken.more) == (2, True)
    monkeypatch.setattr(dead_letters, "MOST_TAKEN_BYTES", 1)
    assert files.take(Choice()).rows.num_rows == 1  # of one that is larger than all, too


def test_what_comes_while_a_redrive_runs_is_not_dropped_with_it(place: Path, tmp_path: Path) -> None:
    files = DeadLetterFiles(str(place))
    redrive = stage_redrive(pipeline_of(tmp_path, place), files.take(Choice()))
    write(place, 7, letter(0))  # rejected again: the same place in the topic, another file
    assert redrive.finish(files) == 13
    assert [row["records"] for row in files.by_reason()] == [1]


def test_a_redrive_is_a_run_of_its_own_over_the_messages_as_they_were(place: Path, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, place)
    redrive = stage_redrive(pipeline, DeadLetterFiles(str(place)).take(Choice()))
    assert redrive.stages() == ["message", "record"]
    whole, single = (redrive.pipeline(pipeline, stage) for stage in redrive.stages())
    assert whole.decode is not None
    assert single.decode is not None
    assert (whole.decode.of_records, single.decode.of_records) == (False, True)
    assert len({pipeline.state, whole.state, single.state}) == 3
    assert whole.source.columns == ("offset",)
    assert whole.dead_letter is not None
    assert (whole.dead_letter.path, whole.dead_letter.max_rows) == (str(place), None)
    [message] = pq.read_table(single.source.path).to_pylist()
    assert (message["body"], message["offset"], message["attributes"]) == (b"\xff", 12, [("k", "v")])


def test_nothing_is_redriven_into_spark_s_own_file_sink(place: Path, tmp_path: Path) -> None:
    pipeline, letters = pipeline_of(tmp_path, place), DeadLetterFiles(str(place))
    log = replace(pipeline, sinks=(Sink("lake", "parquet", path="/lake", layout="log"),))
    with pytest.raises(ConfigError, match=r"sinks\.lake\.layout: log cannot take rows of a redrive"):
        stage_redrive(log, letters.take(Choice()))
    begun = stage_redrive(pipeline, letters.take(Choice()))
    with pytest.raises(ConfigError, match=r"sinks\.lake\.layout: log cannot take rows of a redrive"):
        begun.pipeline(log, "message")


def test_nothing_is_redriven_into_a_state_and_what_was_refused_is_not_begun(place: Path, tmp_path: Path) -> None:
    pipeline, letters = pipeline_of(tmp_path, place), DeadLetterFiles(str(place))
    counted = Step("counted", sql="SELECT id, count(*) AS n FROM input GROUP BY id")
    begun = stage_redrive(pipeline, letters.take(Choice()))
    windowed = replace(pipeline, steps=(counted,), sinks=(Sink("lake", "parquet", path="/lake"),))
    with pytest.raises(ConfigError, match=r"steps\.counted: keeps state, which a redrive"):
        begun.pipeline(windowed, "message")
    (begun.place / "message" / "state" / "checkpoint-step-x").mkdir(parents=True)
    begun.give_up()
    assert unfinished_redrive(pipeline) == begun  # some sinks may have some of it
    (begun.place / "message" / "state" / "checkpoint-step-x").rmdir()
    begun.give_up()
    assert unfinished_redrive(pipeline) is None
    with pytest.raises(ConfigError, match="keeps state"):
        stage_redrive(windowed, letters.take(Choice()))
    assert unfinished_redrive(pipeline) is None
    assert sum(row["records"] for row in letters.by_reason()) > 0


def test_a_redrive_without_a_dead_letter_section_rejects_into_the_pipeline_s_own(place: Path, tmp_path: Path) -> None:
    letters = DeadLetterFiles(str(place)).take(Choice())
    for section in (None, DeadLetter(max_rows=5)):
        pipeline = replace(pipeline_of(tmp_path, place), dead_letter=section)
        redrive = stage_redrive(pipeline, letters)
        assert redrive.pipeline(pipeline, "message").dead_letter == DeadLetter(path=f"{pipeline.state}/dead_letter")


def test_a_redrive_that_was_killed_comes_before_another(place: Path, tmp_path: Path) -> None:
    pipeline = pipeline_of(tmp_path, place)
    assert unfinished_redrive(pipeline) is None
    files = DeadLetterFiles(str(place))
    (tmp_path / "state" / "redrive" / ".123").mkdir(parents=True)  # killed while it was written down
    stage_redrive(pipeline, files.take(Choice(most=3)))
    left = unfinished_redrive(pipeline)
    assert left is not None
    assert left.rows == 3
    assert left.finish(files) == 3
    assert unfinished_redrive(pipeline) is None
    assert list((tmp_path / "state" / "redrive").iterdir()) == []


def test_what_cannot_be_read_here_is_named(tmp_path: Path) -> None:
    base = pipeline_of(tmp_path, tmp_path / "none")
    with pytest.raises(NotFoundError, match="no dead letters in"):
        dead_letters_of(base)
    other = Pipeline("o", base.source, dead_letter=DeadLetter("jdbc", table="dlq"), state=base.state)
    with pytest.raises(ConfigError, match="jdbc"):
        dead_letters_of(other)
    topic = Pipeline("o", base.source, dead_letter=DeadLetter("tubemq", topic="dlq"), state=base.state)
    with pytest.raises(ConfigError, match="no Master"):
        dead_letters_of(topic)
    nothing = DeadLetterFiles(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="no dead letter matches"):
        stage_redrive(base, nothing.take(Choice()))


def test_dead_letters_in_a_topic_are_settled_in_their_order(tmp_path: Path) -> None:
    pipeline = replace(pipeline_of(tmp_path, tmp_path), dead_letter=DeadLetter("tubemq", topic="dlq"))
    with ThreadedCluster() as cluster, pytubemq.sync.connect(cluster.master) as tube:
        cluster.create_topic("dlq", partitions=2)
        pipeline = replace(pipeline, source=replace(pipeline.source, master=cluster.master))
        with tube.producer("dlq") as producer:
            for number in range(6):
                found = letter(number, raw=base64.b64encode(b"\xff").decode(), attributes={"k": "v"})
                producer.send(json.dumps(found | {"timestamp": "2026-02-02T02:40:00.000Z"}).encode())
        beside = tmp_path / "state" / "dead_letter"
        pipeline = replace(pipeline, state=str(tmp_path / "state"))
        write(beside, 0, letter(100, raw=b"too long for a message"))
        letters = dead_letters_of(pipeline)
        assert [(row["reason"], row["records"]) for row in letters.by_reason()] == [("decode.json", 7)]
        both = letters.take(Choice(most=2))
        assert both.rows["raw"].to_pylist() == [b"too long for a message", b"\xff"]
        first = letters.take(Choice(most=1))
        assert first.rows["raw"].to_pylist() == [b"too long for a message"]
        assert (letters.drop(dict(first.keys)), letters.drop(dict(first.keys))) == (1, 0)
        assert [(row["reason"], row["records"]) for row in letters.by_reason()] == [("decode.json", 6)]
        assert dead_letter_rows(letters.take(Choice(most=1)))[0]["raw"] == {"base64": "/w=="}
        with pytest.raises(ConfigError, match="only the first ones can be removed"):
            letters.check_settling(Choice("decode.json"))
        redrive = stage_redrive(pipeline, letters.take(Choice(most=4)))
        again = redrive.pipeline(pipeline, "message").dead_letter
        assert again is not None
        assert again.master == cluster.master, "that of the source, which is another one in a redrive"
        assert redrive.finish(letters) == 4
        assert [row["records"] for row in letters.by_reason()] == [2]
        rest = letters.take(Choice())
        assert (letters.drop(dict(rest.keys)), letters.drop(dict(rest.keys))) == (2, 0)
        with tube.producer("dlq") as producer:
            producer.send(b"something else")
            producer.send(json.dumps(letter(7, raw=None, timestamp=None, attributes=None)).encode())
            producer.send(json.dumps({"partition": 1}).encode())
        assert {row["reason"]: row["records"] for row in letters.by_reason()} == {"decode.json": 1, "foreign": 2}
        strange = letters.take(Choice("foreign"))
        assert {row["raw"] for row in dead_letter_rows(strange)} == {"something else", '{"partition": 1}'}
        with pytest.raises(ConfigError, match="comes a message that is not one"):
            stage_redrive(pipeline, letters.take(Choice()))
        assert letters.drop(dict(letters.take(Choice()).keys)) == 3
        assert letters.by_reason() == []
