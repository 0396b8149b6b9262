"""Options of a consumer that balances itself."""

from __future__ import annotations

from dataclasses import dataclass

from pytubemq.client.options import ConsumerOptions
from pytubemq.core.share import check_node
from pytubemq.errors import ConfigError
from pytubemq.model.ids import UNDEFINED
from pytubemq.model.limits import CLIENT_TIMEOUT_S

META_CHECK_S = 10.0
"""Period of metadata requests to the Master (the original's partMetaInfoCheckPeriodMs)."""
NODE_WAIT_S = CLIENT_TIMEOUT_S + 10.0
"""Time in which the Master notices a dead member, which keeps its number until then."""
META_CHECK_BOUNDS_S = (0.1, 3_600.0)
NODE_WAIT_BOUNDS_S = (0.0, 3_600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceOptions(ConsumerOptions):
    """As `ConsumerOptions`; by default a batch stays with the user for as long as it takes."""

    confirm_timeout_s: float | None = None
    node_id: int | None = None
    source_count: int | None = None
    manual: bool = False
    meta_check_s: float = META_CHECK_S
    node_wait_s: float = NODE_WAIT_S

    def __post_init__(self) -> None:
        super(BalanceOptions, self).__post_init__()
        if (self.node_id is None) != (self.source_count is None):
            raise ConfigError(
                "only one of node_id and source_count is given",
                hint="write both, as in node_id=0, source_count=2; without them write manual=True",
            )
        if self.node_id is not None and self.source_count is not None:
            check_node(self.source_count, self.node_id)
        elif not self.manual:
            raise ConfigError(
                "which share of the partitions is this consumer's?",
                hint="write node_id=0, source_count=2 for the first of two; or manual=True and connect to partitions",
            )
        _check_between("meta_check_s", self.meta_check_s, META_CHECK_BOUNDS_S)
        _check_between("node_wait_s", self.node_wait_s, NODE_WAIT_BOUNDS_S)

    @property
    def numbers(self) -> tuple[int, int]:
        """`sourceCount` and `nodeId` as the protocol has them."""
        if self.source_count is None or self.node_id is None:
            return UNDEFINED, UNDEFINED
        return self.source_count, self.node_id


def _check_between(name: str, value: float, bounds: tuple[float, float]) -> None:
    least, most = bounds
    if not least <= value <= most:
        raise ConfigError(f"{name} is {value:g}", hint=f"write a number from {least:g} to {most:g}")
