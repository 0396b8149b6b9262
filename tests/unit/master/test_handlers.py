"""The work of a method begins only while this Master leads, also where its request has waited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from pytubemq.errors import EnvelopeError
from pytubemq.master.handlers import _guarded
from pytubemq.master.leader.standby import STANDBY_EXCEPTION
from pytubemq.wire.rpc.methods import Method

if TYPE_CHECKING:
    from pytubemq.master.access.access import Access


def test_a_request_that_waited_beyond_the_lease_is_refused_as_by_a_standby() -> None:
    served: list[object] = []

    def work(_call: Any, request: Any) -> None:
        served.append(request)

    serve = _guarded(Method.CONSUMER_HEARTBEAT_C2M, work, cast("Access", None), lambda: False)
    with pytest.raises(EnvelopeError) as refused:
        serve(None, "a long report")
    assert (refused.value.exception_name, refused.value.fatal) == (STANDBY_EXCEPTION, False)
    assert served == []
