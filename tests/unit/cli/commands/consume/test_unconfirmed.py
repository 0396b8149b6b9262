"""A batch that was printed and cannot be confirmed: reported, remembered, and no reason to stop reading."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pytubemq.cli.commands.consume.consume import Unconfirmed
from pytubemq.errors import ServerOverflowError, StaleBatchError, TubeError
from pytubemq.model.ids import Partition

pytestmark = pytest.mark.anyio
FULL, OTHER = Partition(1, "t", 0), Partition(2, "t", 0)


@dataclass
class Options:
    said: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.said.append(text)


@dataclass
class Batch:
    partition: Partition
    error: TubeError | None = None

    async def confirm(self) -> None:
        if self.error is not None:
            raise self.error


async def confirmed(*batches: Batch) -> tuple[Unconfirmed, list[str]]:
    options = Options()
    unconfirmed = Unconfirmed(cast("Any", options))
    for batch in batches:
        await unconfirmed.confirm(cast("Any", batch))
    return unconfirmed, options.said


async def test_a_full_broker_ends_nothing_and_is_the_result_at_the_end() -> None:
    refusal = ServerOverflowError("the disk is full", code=419)
    unconfirmed, said = await confirmed(Batch(FULL, refusal), Batch(OTHER))
    assert said == ["messages of 1:t:0 may come again: the disk is full"]
    with pytest.raises(ServerOverflowError, match="the disk is full"):
        unconfirmed.raise_last()


async def test_a_confirm_that_succeeds_later_makes_up_for_it() -> None:
    unconfirmed, _ = await confirmed(Batch(FULL, ServerOverflowError("the disk is full", code=419)), Batch(FULL))
    unconfirmed.raise_last()


async def test_a_batch_that_belongs_to_another_member_is_no_fault_of_this_one() -> None:
    unconfirmed, said = await confirmed(Batch(FULL, StaleBatchError("the partition was revoked")))
    assert said == ["messages of 1:t:0 may come again: the partition was revoked"]
    unconfirmed.raise_last()
