"""Reset epochs: numbers that grow each time somebody moves a group in a partition.

The invariant: a member that registers again gets a larger epoch than before if its group was moved meanwhile, also
after a restart of the Broker. The number of epochs is bounded; the current consumer of a partition learns of a move in
any case, because its registration stores the epoch as well.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from pytubemq.broker.registration_key import RegistrationKey
from pytubemq.model.limits import MAX_RESET_EPOCHS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytubemq.broker.members.reset_history import Reset


class ResetEpochs:
    """The epochs of one Broker. Event loop only."""

    def __init__(self, resets: Iterable[Reset] = (), *, most: int = MAX_RESET_EPOCHS) -> None:
        """Start from `resets`, the recorded ones from before the start, the oldest first."""
        self._most = most
        self._epochs: OrderedDict[RegistrationKey, int] = OrderedDict()
        for reset in resets:
            self.advance(RegistrationKey(reset.group, reset.topic, reset.partition_id), wall_ms=reset.time_ms)

    def get(self, key: RegistrationKey) -> int:
        """Return the epoch of a group in a partition; 0 if nobody is known to have moved it."""
        return self._epochs.get(key, 0)

    def advance(self, key: RegistrationKey, *, wall_ms: int) -> int:
        """Begin a new epoch, larger than the last one whatever the clock says, and return it."""
        # The wall clock, so that the epoch is larger after a restart too, when the earlier ones may be forgotten.
        epoch = self._epochs[key] = max(wall_ms, self._epochs.get(key, 0) + 1)
        # The one not advanced for longest goes first.
        self._epochs.move_to_end(key)
        if len(self._epochs) > self._most:
            self._epochs.popitem(last=False)
        return epoch
