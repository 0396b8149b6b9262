"""Brokers, partitions and lost messages that a read without a group skips, with the reasons.

The invariant: everything else is printed first; then the skipped parts are one error that names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytubemq.cli.output.words import count_of
from pytubemq.errors import ConfigError, CorruptError, TubeError

if TYPE_CHECKING:
    from pytubemq.cli.options import GlobalOptions
    from pytubemq.model.ids import Partition

LOSSES_SAID: Final = 10
"""Gaps with lost messages that are named; the others are counted."""
LOSS_HINT: Final = "all else was printed; stop the Broker and see what can be saved:  pytubemq store verify DIRECTORY"
STOP_HINT: Final = "all else was printed; see the reason:  pytubemq cluster health"


class Unread:
    """The parts that were not read so far."""

    def __init__(self, options: GlobalOptions) -> None:
        self._options = options
        self._why: dict[int, TubeError] = {}
        self._stopped: dict[Partition, tuple[int, TubeError]] = {}
        self._losses: list[CorruptError] = []
        self._more_losses = 0

    def __contains__(self, partition: Partition) -> bool:
        return partition.broker_id in self._why

    def add(self, partition: Partition, error: TubeError) -> bool:
        """Record that a partition's Broker cannot be read; return True if this is new."""
        if partition in self:
            return False
        if isinstance(error, ConfigError):  # a Broker of the original
            error.hint = "read as a member of a group, which every Broker can serve: add  --group NAME"
        self._why[partition.broker_id] = error
        return True

    def stop(self, partition: Partition, offset: int, error: TubeError, *, for_good: bool) -> None:
        """Record that a partition cannot be read from `offset` on; `for_good`: it is not retried."""
        self._stopped[partition] = offset, error
        if for_good:
            self._options.say(f"skipped: {partition} from offset {offset} on: {error.message}")

    def take_stopped(self) -> list[tuple[Partition, int, TubeError]]:
        """Remove and return the partitions that stopped, each with its offset and reason, to be retried."""
        found = [(partition, offset, error) for partition, (offset, error) in self._stopped.items()]
        self._stopped.clear()
        return found

    def lose(self, error: CorruptError) -> None:
        """Record that lost messages were skipped."""
        if len(self._losses) < LOSSES_SAID:
            error.hint = LOSS_HINT
            self._losses.append(error)
            self._options.say(f"skipped: {error.message}")
        else:
            self._more_losses += 1

    def check(self) -> None:
        """Raise the reason if something was not read; nothing if all was."""
        if self._more_losses:
            self._options.say(f"skipped: {count_of(self._more_losses, 'more place')} with messages that are lost")
        for partition, (offset, error) in self._stopped.items():
            error.message = f"{partition} was read up to offset {offset} only: {error.message}"
            error.hint = STOP_HINT
        away = [self._why[broker_id] for broker_id in sorted(self._why)]
        every: list[TubeError] = [*away, *(error for _, error in self._stopped.values()), *self._losses]
        if every:
            first, *others = every
            for other in others:
                first.add_note(other.message)
            raise first
