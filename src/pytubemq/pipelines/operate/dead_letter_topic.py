"""The dead letters of a pipeline, where they go to a topic: read from where they were last settled up to its end.

A topic lets nothing be taken out of its middle, so what is settled (redriven or dropped) is a place in each partition,
kept in the pipeline's state. Those too long for a message are in files beside the state. The invariants: a place only
moves forward, past messages that were handled; a message that is not a dead letter of ours is listed and shown as
`foreign`, and only `drop` passes it.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import pytubemq.sync
from pytubemq.decode.dead_letter_columns import DEAD_LETTER_ARROW
from pytubemq.errors import ConfigError, CorruptError, NotFoundError
from pytubemq.model.offset import OFFSET_UNIT
from pytubemq.pipelines.operate.dead_letters import FOREIGN, SUFFIX, Choice, Room, Taken, by_reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pytubemq.model.ids import Partition
    from pytubemq.model.message import Message
    from pytubemq.pipelines.operate.dead_letters import DeadLetterFiles, Key

SETTLED: Final = "dead_letters_settled.json"


class DeadLetterTopic:
    """Dead letters in a topic."""

    def __init__(self, *, master: str, topic: str, state: str) -> None:
        """Create the reader; `state` is the pipeline's state directory on this machine."""
        self.location = topic
        self._master = master
        self._place = Path(state) / SETTLED

    def by_reason(self) -> list[dict[str, Any]]:
        """Count the reasons, the most frequent first."""
        return by_reason(self.summaries())

    def summaries(self) -> Iterator[dict[str, Any]]:
        """Yield what is listed of each."""
        return (row for _, _, row in self._letters())

    def take(self, choice: Choice) -> Taken:
        """Fetch the chosen dead letters: all of them, or the first ones of each partition in turn,
        up to the bounds of what is taken at once.

        Raises:
            NotFoundError: the topic is not there.
        """
        room, rows = Room(choice), []
        spans: dict[str, tuple[int, int]] = {}
        for partition, offset, row in self._letters():
            if choice.has(row.get("reason")):
                if not room.take(row["raw"]):
                    break
                rows.append(row)
                begun, _ = spans.get(str(partition), (offset, offset))
                spans[str(partition)] = (begun, offset + OFFSET_UNIT)
        keys: dict[str, frozenset[Key]] = {key: frozenset({span}) for key, span in spans.items()}
        return Taken(pa.Table.from_pylist(rows, schema=DEAD_LETTER_ARROW), keys, room.more)

    def check_settling(self, choice: Choice) -> None:
        """Refuse to settle what does not stand in a row.

        Raises:
            ConfigError: only a reason is chosen.
        """
        if choice.reason is not None:
            raise ConfigError(
                f"the dead letters are in the topic {self.location}, from which only the first ones can be removed",
                hint="leave out --reason; -n N handles the first N",
            )

    def drop(self, keys: Mapping[str, Collection[Key]]) -> int:
        """Settle all up to the places; returns how many messages that are. Done twice it is done once."""
        settled = self._settled()
        count = 0
        for name, spans in keys.items():
            for begun, end in sorted(spans):
                there = max(int(begun), settled.get(name, 0))
                count += max(0, int(end) - there) // OFFSET_UNIT
                settled[name] = max(there, int(end))
        self._place.parent.mkdir(parents=True, exist_ok=True)
        beside = self._place.with_name(f".{SETTLED}.tmp")
        beside.write_text(json.dumps(settled, sort_keys=True), "utf-8")
        beside.replace(self._place)
        return count

    def _settled(self) -> dict[str, int]:
        try:
            return {str(key): int(value) for key, value in json.loads(self._place.read_text("utf-8")).items()}
        except FileNotFoundError:
            return {}

    def _letters(self) -> Iterator[tuple[Partition, int, dict[str, Any]]]:
        settled = self._settled()
        with pytubemq.sync.connect(self._master, client_name="pipeline dlq") as tube:
            for partition, (first, end) in sorted(tube.offsets(tube.partitions(self.location)).items()):
                start = max(first, settled.get(str(partition), 0))
                if start >= end:
                    continue
                with tube.reader(partition, start=start, end=end, end_exists=True) as reader:
                    for batch in reader.batches():
                        for message in batch.messages:
                            yield partition, message.offset or 0, _letter_or_foreign(message)


class TopicDeadLetters:
    """Those in a topic, behind those in files that are too long for it."""

    def __init__(self, topic: DeadLetterTopic, files: DeadLetterFiles) -> None:
        self.location = topic.location
        self._topic = topic
        self._files = files

    def by_reason(self) -> list[dict[str, Any]]:
        """Count the reasons, the most frequent first."""
        return by_reason(chain(self._files.summaries(), self._topic.summaries()))

    def take(self, choice: Choice) -> Taken:
        """Fetch the chosen dead letters; none from the topic while files hold more than are taken at once.

        Raises:
            NotFoundError: the topic is not there.
        """
        long = self._files.take(choice)
        found = long.rows.num_rows
        if long.more or found == choice.most:
            return long
        short = self._topic.take(replace(choice, most=None if choice.most is None else choice.most - found))
        if not found:
            return short
        rows = pa.concat_tables([long.rows.select(DEAD_LETTER_ARROW.names).cast(DEAD_LETTER_ARROW), short.rows])
        return Taken(rows, {**long.keys, **short.keys}, short.more)

    def check_settling(self, choice: Choice) -> None:
        """Check the choice as for those in the topic.

        Raises:
            ConfigError: only a reason is chosen.
        """
        self._topic.check_settling(choice)

    def drop(self, keys: Mapping[str, Collection[Key]]) -> int:
        """Take away those in files, settle those in the topic. Done twice it is done once."""
        files = {name: held for name, held in keys.items() if name.endswith(SUFFIX)}
        places = {name: held for name, held in keys.items() if name not in files}
        return self._files.drop(files) + self._topic.drop(places)


def _letter_or_foreign(message: Message) -> dict[str, Any]:
    """Parse a dead letter, or describe a message that is none."""
    try:
        return letter_of(message)
    except CorruptError as error:
        there = message.partition
        return dict.fromkeys(DEAD_LETTER_ARROW.names) | {
            "reason": FOREIGN, "detail": error.message, "stage": FOREIGN, "topic": there.topic,
            "brokerId": there.broker_id, "partition": there.partition_id, "offset": message.offset,
            "raw": bytes(message.body),
        }  # fmt: skip


def letter_of(message: Message) -> dict[str, Any]:
    """Parse a dead letter from the JSON object that the sink made of it.

    Raises:
        CorruptError: the message is none.
    """
    from datetime import datetime

    try:
        found = json.loads(message.body)
        row = {name: found.get(name) for name in DEAD_LETTER_ARROW.names}
        if not isinstance(row["reason"], str):
            raise ValueError("it has no reason")
        row["raw"] = None if row["raw"] is None else base64.b64decode(row["raw"], validate=True)
        row["timestamp"] = None if row["timestamp"] is None else datetime.fromisoformat(row["timestamp"])
        row["attributes"] = None if row["attributes"] is None else list(row["attributes"].items())
        pa.Table.from_pylist([row], schema=DEAD_LETTER_ARROW)
    except (ValueError, AttributeError, TypeError, ArithmeticError, RecursionError) as error:
        raise CorruptError(
            f"a message of {message.partition} at offset {message.offset} is not a dead letter: {error}",
            hint="use a topic for the dead letters alone",
        ) from error
    return row


def topic_of(*, master: str | None, topic: str, state: str | None) -> DeadLetterTopic:
    """Return the topic of a pipeline's dead letters.

    Raises:
        ConfigError: no Master is named, or the state is not on this machine.
        NotFoundError: the pipeline has no state.
    """
    if not master:
        raise ConfigError(
            f"the dead letters go to the topic {topic}, and no Master is named", hint="add master: host:8715"
        )
    if state is None:
        raise NotFoundError("the pipeline has no state", hint="pytubemq pipeline run FILE")
    if "://" in state:
        raise ConfigError(f"the state {state} is not on this machine: it records which dead letters are done")
    return DeadLetterTopic(master=master, topic=topic, state=state)
