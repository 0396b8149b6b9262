"""Producer and Broker come to the same count again after batches without an answer, whichever of them were counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.client.refusals import Refusals


@given(st.lists(st.sampled_from(["taken", "refused", "dropped", "lost"]), max_size=30), st.booleans())
def test_both_counts_agree_as_soon_as_the_lane_is_sure(events: list[str], says_why: bool) -> None:
    """`dropped` is counted by the Broker and not answered, `lost` is neither."""
    refusals, count = Refusals(), 0
    for event in [*events, *["taken"] * 100]:
        asked, seen, sure = refusals.asks, refusals.seen, not refusals.unsure
        assert not sure or seen == count
        behind = count > seen
        assert not behind or asked, "only a batch that asks may be refused for what it says"
        if event in ("dropped", "lost"):
            refusals.unanswered()
            count += event == "dropped"
        elif behind or event == "refused":
            refusals.refused(asked=asked, behind=behind and says_why)
            count += 1
        else:
            refusals.taken(asked=asked)
    assert not (says_why and refusals.unsure)


def test_a_broker_that_does_not_say_why_takes_every_second_batch() -> None:
    refusals = Refusals()
    refusals.unanswered()
    assert (refusals.asks, refusals.seen) == (True, 0)
    refusals.refused(asked=True, behind=False)
    assert (refusals.asks, refusals.seen, refusals.unsure) == (False, 2, True)
    refusals.taken(asked=False)
    assert (refusals.asks, refusals.seen) == (True, 1)
