"""Checks of a request against the state of this Broker, before anything is done with it.

The invariant: a check that fails says in one sentence what was wrong with which thing, with the protocol's code; the
order of the checks is the original's, so that a request with two faults gets the same code from both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytubemq.core.refusal import Refused
from pytubemq.core.request_fields import check_topic_name
from pytubemq.errors import Code, FormatError
from pytubemq.model.filters import filter_code
from pytubemq.model.limits import MAX_FILTER_ITEM_CHARS, MAX_FILTER_ITEMS
from pytubemq.model.missing_topic import missing_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytubemq.broker.topics import ServedTopic, TopicTable


@dataclass(slots=True)
class ServingState:
    """The state in which this Broker serves: at all or not, and with reads or writes stopped by the Master."""

    broker_id: int
    started: bool = False
    read_stopped: bool = False
    write_stopped: bool = False

    def check_started(self) -> None:
        """Refuse while starting and stopping."""
        if not self.started:
            raise Refused(Code.SERVICE_UNAVAILABLE, f"Broker {self.broker_id} is starting or stopping; try again later")

    def check_read(self) -> None:
        """Refuse if the Master has stopped reads."""
        self.check_started()
        if self.read_stopped:
            raise Refused(Code.SERVICE_UNAVAILABLE, f"the Master has stopped reading at Broker {self.broker_id}")

    def check_write(self) -> None:
        """Refuse if the Master has stopped writes."""
        self.check_started()
        if self.write_stopped:
            raise Refused(Code.SERVICE_UNAVAILABLE, f"the Master has stopped writing at Broker {self.broker_id}")


def topic(value: str, topics: TopicTable) -> ServedTopic:
    """Return the topic `topicName`, which must be one served here."""
    found = topics.get(value)
    if found is not None:  # a served name has passed every check
        return found
    name = check_topic_name(value)
    found = topics.get(name)
    if found is None:
        raise Refused(Code.FORBIDDEN, f"{missing_text([name])} at this Broker; create it at the Master")
    return found


def partition(served: ServedTopic, partition_id: int, *, code: Code = Code.FORBIDDEN) -> None:
    """Refuse a partition id that the topic does not have."""
    if partition_id not in served.partition_ids:
        raise Refused(
            code,
            f"topic {served.config.name} has no partition {partition_id} at this Broker, "
            f"it has {len(served.partition_ids)}",
        )


def open_for_writing(served: ServedTopic) -> None:
    """Refuse a topic that is closed for sends and commits: any status but 0 closes it."""
    if not served.writable:
        raise Refused(Code.FORBIDDEN, f"topic {served.config.name} is closed (status {served.config.status})")


def open_for_reading(served: ServedTopic) -> None:
    """Refuse a topic that is closed for reads; a soft deleted one (status 1) stays readable."""
    if not served.readable:
        raise Refused(Code.FORBIDDEN, f"topic {served.config.name} is closed (status {served.config.status})")


def filter_codes(items: Sequence[str]) -> frozenset[int] | None:
    """Return the codes of a consumer's filter; None without any."""
    wanted = {item.strip() for item in items} - {""}
    if len(wanted) > MAX_FILTER_ITEMS:
        raise Refused(Code.BAD_REQUEST, f"{len(wanted)} filter items given, {MAX_FILTER_ITEMS} are allowed")
    for item in wanted:
        if len(item) > MAX_FILTER_ITEM_CHARS:
            raise Refused(
                Code.BAD_REQUEST, f"a filter item has {len(item)} characters, {MAX_FILTER_ITEM_CHARS} are allowed"
            )
    return frozenset(map(filter_code, wanted)) or None


def malformed(error: FormatError) -> Refused:
    """Return the refusal of a request with a string that is not in the protocol's form."""
    return Refused(Code.BAD_REQUEST, error.message)
