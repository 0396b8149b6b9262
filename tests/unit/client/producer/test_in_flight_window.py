"""Producer and Broker come to the same count again after batches without an answer, whichever of them were counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytubemq.client.producer.in_flight_window import RefusalCount


@given(st.lists(st.sampled_from(["taken", "refused", "dropped", "lost"]), max_size=30), st.booleans())
def test_both_counts_agree_as_soon_as_the_lane_is_sure(events: list[str], says_why: bool) -> None:
    """`dropped` is counted by the Broker and not answered, `lost` is neither."""
    refusals, count = RefusalCount(), 0
    for event in [*events, *["taken"] * 100]:
        is_probe, seen, sure = refusals.probes, refusals.seen, not refusals.unsure
        assert not sure or seen == count
        behind = count > seen
        assert not behind or is_probe, "only a batch that probes may be refused for what it says"
        if event in ("dropped", "lost"):
            refusals.record_timeout()
            count += event == "dropped"
        elif behind or event == "refused":
            refusals.record_refused(is_probe=is_probe, behind=behind and says_why)
            count += 1
        else:
            refusals.record_accepted(is_probe=is_probe)
    assert not (says_why and refusals.unsure)


def test_a_broker_that_does_not_say_why_takes_every_second_batch() -> None:
    refusals = RefusalCount()
    refusals.record_timeout()
    assert (refusals.probes, refusals.seen) == (True, 0)
    refusals.record_refused(is_probe=True, behind=False)
    assert (refusals.probes, refusals.seen, refusals.unsure) == (False, 2, True)
    refusals.record_accepted(is_probe=False)
    assert (refusals.probes, refusals.seen) == (True, 1)
