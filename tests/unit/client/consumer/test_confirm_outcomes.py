"""The hint of a batch that cannot be settled fits the reason."""

from __future__ import annotations

from typing import Any, cast

from pytubemq.client.consumer.confirm_outcomes import ConfirmOutcomes
from pytubemq.client.received.batch import Batch
from pytubemq.model.ids import Partition
from pytubemq.model.message import Message

P0 = Partition(1, "demo", 0)


def test_a_late_confirm_and_a_group_that_was_moved_get_different_advice() -> None:
    outcomes = ConfirmOutcomes(P0)
    outcomes.record(1, "it was given back after 60 s without confirm")
    late = outcomes.stale_error(1, confirm_timeout_s=60)
    assert "confirm within 60 s" in str(late.hint)
    outcomes.record_left(2, "its group was moved to another offset")
    moved = outcomes.stale_error(2, confirm_timeout_s=60)
    assert "its group was moved" in moved.message
    assert "within" not in str(moved.hint)
    outcomes.end_reason = "another member has the partition"
    assert "within" not in str(outcomes.stale_error(3, confirm_timeout_s=60).hint)


def test_a_batch_that_a_reset_took_from_its_user_came_not_too_late() -> None:
    outcomes = ConfirmOutcomes(P0)
    outcomes.record_left(1, "its group was moved to another offset")
    outcomes.record(1, "its group was moved to another offset")  # as giving back a batch in hand does
    error = outcomes.stale_error(1, confirm_timeout_s=60)
    assert "its group was moved" in error.message
    assert error.hint == "continue with the next batch: it starts at the group's new offset"


def test_what_became_of_a_batch_goes_before_what_became_of_its_partition() -> None:
    outcomes = ConfirmOutcomes(P0)
    outcomes.record(1, "it was confirmed before")
    outcomes.end_reason = "its partition was disconnected"
    error = outcomes.stale_error(1, confirm_timeout_s=None)
    assert "confirmed before" in error.message
    assert "settle each batch once" in str(error.hint)
    assert "disconnected" in outcomes.stale_error(2, confirm_timeout_s=None).message


def test_one_message_is_singular() -> None:
    message = Message(P0, b"x", offset=0)
    texts = [repr(Batch(P0, (message,) * count, 0, 28 * count, holder=cast("Any", None), ticket=1)) for count in (1, 2)]
    assert [text.split(", ")[1].split(" from")[0] for text in texts] == ["1 message", "2 messages"]
