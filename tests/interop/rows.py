"""The matrix's rows by their names, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .authenticated import java_clients_sign, our_clients_sign
from .cells import (
    java_bound,
    java_producer,
    java_pull,
    java_push,
    mixed_group,
    our_bound,
    our_producer,
    our_pull,
    our_push,
)
from .client_balance import java_client_balance, our_client_balance
from .disturbances import (
    broker_restarts,
    first_message,
    group_is_reset,
    master_restarts,
    members_move,
    rules_arrive,
    standby_answers,
    topic_grows,
)
from .encrypted import over_tls
from .system import COLUMNS, JJ, JP, PJ, PP
from .visits import past_the_master

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .bench import Bench

    Row = Callable[[Bench], Awaitable[dict[str, Any]]]


def _by_name(*rows: Row) -> dict[str, Row]:
    return {(row.__doc__ or "").splitlines()[0].rstrip("."): row for row in rows}


CLIENTS = _by_name(
    java_producer,
    java_pull,
    java_push,
    java_client_balance,
    java_bound,
    our_producer,
    our_pull,
    our_push,
    our_client_balance,
    our_bound,
    mixed_group,
)
"""Each kind of client."""
DISTURBANCES = _by_name(members_move, standby_answers, topic_grows, group_is_reset, rules_arrive)
"""What may happen beside one another."""
VISITS = _by_name(past_the_master)
"""What only a Java Master asks of its Brokers."""
ENCRYPTED = _by_name(over_tls)
"""With servers of its own."""
BROKER_RESTARTS, MASTER_RESTARTS = _by_name(broker_restarts), _by_name(master_restarts)
"""What the others would not survive: when they are done, first the one, then the other."""
FIRST_MESSAGE = _by_name(first_message)
"""A time, so at the end, when nothing else runs there."""
AUTHENTICATED = _by_name(our_clients_sign)
JAVA_AUTHENTICATED = _by_name(java_clients_sign)
"""With servers of their own. A Java Master refuses the heartbeats of Java clients that sign."""
OWN_SERVERS = {**ENCRYPTED, **AUTHENTICATED, **JAVA_AUTHENTICATED}
STAGES = (CLIENTS, {**DISTURBANCES, **VISITS, **OWN_SERVERS}, BROKER_RESTARTS, MASTER_RESTARTS, FIRST_MESSAGE)
ROWS: dict[str, Row] = {name: row for stage in STAGES for name, row in stage.items()}
"""Each begins when its column is ready, ends with the numbers of its cell, or raises what is wrong."""


def columns_of(row: str) -> tuple[str, ...]:
    """Where a row runs."""
    assert row in ROWS
    if row in JAVA_AUTHENTICATED:
        return (PP, PJ)
    return (JJ, JP) if row in VISITS else COLUMNS
