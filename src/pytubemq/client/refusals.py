"""How many batches of a lane its Broker has refused on this connection, as far as the lane can know.

The invariant: the Broker's count is between `_known` and `_known + _unanswered`. Saying more than the Broker counted
is not harmless while several batches fly: one that is refused then raises its count to no more than what the next one
says, which is taken, and the repeated messages land behind it. So while the two differ the lane sends one at a time.

It finds out with those. A batch that says the least possible (`_known`), alone on its way, is either taken, which shows
that no unanswered one was counted: a Broker decides the batches of a connection in the order they came, so none of them
can be counted later. Or it is refused as sent without knowledge of a refusal: then at least one of them was counted.
"""

from __future__ import annotations


class Refusals:
    """The count of one connection."""

    def __init__(self) -> None:
        self._known = 0
        self._unanswered = 0
        self._asking = True

    @property
    def unsure(self) -> bool:
        """Whether the Broker's count may be lower than what a batch has to say to be taken for certain."""
        return self._unanswered > 0

    @property
    def asks(self) -> bool:
        """Whether the next batch, alone on its way, is to find out what the Broker has counted."""
        return self._unanswered > 0 and self._asking

    @property
    def seen(self) -> int:
        """What the next batch says."""
        return self._known if self.asks else self._known + self._unanswered

    def taken(self, *, asked: bool) -> None:
        """A batch was written, at least in part."""
        if asked:
            self._unanswered = 0
        self._asking = True

    def refused(self, *, asked: bool, behind: bool) -> None:
        """A batch was refused for now; `behind`: because it did not know of an earlier refusal."""
        self._known += 1
        if asked and behind and self._unanswered:
            self._known += 1
            self._unanswered -= 1
        elif asked:
            self._asking = False  # for another reason, or unsaid: the next says enough, lest it is refused for ever

    def unanswered(self) -> None:
        """The time of a batch ran out: the Broker counts what it dropped for its age, and may have done so."""
        self._unanswered += 1
