"""Every option of the client: its name, type, default and bounds.

The invariants: an option is written here and nowhere else, so the methods of `Tube` and of its sync twin take the
arguments of these constructors (`option_arguments`); one that makes no sense is refused by name, before anything is
connected.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from pytubemq.client.option_checks import check_between, check_filters, check_optional, check_topics
from pytubemq.client.start_position import Bound, Start, check_place, check_start
from pytubemq.core.share import check_node
from pytubemq.errors import ConfigError
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.model.ids import UNDEFINED, Partition
from pytubemq.model.limits import (
    CLIENT_TIMEOUT_S,
    CONFIRM_TIMEOUT_S,
    DEFAULT_READER_RETRY_S,
    DEFAULT_REQUEST_TIMEOUT_S,
    MAX_FETCH_MESSAGES,
    MAX_FETCH_WAIT_S,
    MAX_REQUEST_TIMEOUT_S,
    PRODUCER_BUFFER_BYTES,
    PRODUCER_BUFFER_MESSAGES,
)
from pytubemq.model.names import check_group
from pytubemq.model.tls_options import TlsOptions

if TYPE_CHECKING:
    from datetime import datetime

    from pytubemq.client.partition_state import Known
    from pytubemq.model.ids import Address
    from pytubemq.security.credentials import Credentials

MAX_PUSH_WORKERS = 1_000
FirstConnect = Literal["fail", "wait"]
OnError = Literal["retry", "skip", "stop"]
"""Actions of a push consumer after its handler raised: fetch the batch again, confirm it all the same, or end."""
OnMalformed = Literal["raise", "raw"]
"""Actions of a reader for a message whose payload does not contain the attributes that it claims."""
Handler: TypeAlias = Callable[[Any], Awaitable[object] | object]
"""Takes a `Batch`, or with `by_message` a `Message`."""

# --- defaults that several of these options share -----------------------------------------------------------------
CLOSE_TIMEOUT_S: Final = 5.0
"""How long a consumer may take to close."""
BATCH_MESSAGES: Final = 500
"""Most messages of a consumer's batch."""
FETCH_WAIT_S: Final = 1.0
"""How long a Broker may hold a fetch until there is something to bring."""


class ConnectOptions:
    """Options of a connection to a cluster."""

    def __init__(
        self,
        masters: str | Sequence[Address] | ClusterAddress,
        *,
        first_connect: FirstConnect = "fail",
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        client_name: str = "",
        credentials: Credentials | None = None,
        known: Known | None = None,
        tls: TlsOptions | None = None,
    ) -> None:
        if first_connect not in get_args(FirstConnect):
            raise ConfigError(f"first_connect is {first_connect!r}", hint="write 'fail' or 'wait'")
        if any(char in client_name for char in "@#_") or len(client_name) > 100:
            raise ConfigError(f"client_name is {client_name!r}", hint="use at most 100 characters, without @, # and _")
        if tls is not None and not isinstance(tls, TlsOptions):
            raise ConfigError(
                f"tls is {type(tls).__name__}, not TlsOptions", hint="write  tls=pytubemq.TlsOptions(ca='ca.pem')"
            )
        if isinstance(masters, str):
            address = ClusterAddress.parse(masters, tls=tls)
        elif isinstance(masters, ClusterAddress):
            address = masters if tls is None else replace(masters, tls=tls)
        else:
            address = ClusterAddress(tuple(masters), tls)
        self.masters: Final = address.masters
        if address.user is not None and credentials is not None:
            raise ConfigError("the user is given twice", hint="leave out credentials, or the user in the address")
        self.tls: Final = address.tls
        self.user: Final = address.user
        self.first_connect: Final[FirstConnect] = first_connect
        self.request_timeout_s: Final = check_between(
            "request_timeout_s", request_timeout_s, 0.05, MAX_REQUEST_TIMEOUT_S
        )
        self.client_name: Final = client_name
        self.credentials: Final = credentials
        self.known: Final = known


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """Options of a producer."""

    topic: str
    _: KW_ONLY
    linger_s: float = 0.0
    max_buffer_messages: int = PRODUCER_BUFFER_MESSAGES
    max_buffer_bytes: int = PRODUCER_BUFFER_BYTES
    delivery_timeout_s: float = 60.0
    close_timeout_s: float = 10.0
    batching: bool = True
    idempotent: bool = True

    def __post_init__(self) -> None:
        check_between("linger_s", self.linger_s, 0.0, 10.0)
        check_between("max_buffer_messages", self.max_buffer_messages, 1, 10_000_000)
        check_between("max_buffer_bytes", self.max_buffer_bytes, 1, 1 << 40)
        check_between("delivery_timeout_s", self.delivery_timeout_s, 0.05, 86_400.0)
        check_between("close_timeout_s", self.close_timeout_s, 0.0, 3_600.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """Limits of one fetch of a consumer: its messages, its bytes, and the Broker's long poll."""

    max_messages: int = BATCH_MESSAGES
    max_wait_s: float = FETCH_WAIT_S
    max_bytes: int | None = None
    idle_timeout_s: float | None = None

    def __post_init__(self) -> None:
        check_between("max_messages", self.max_messages, 1, MAX_FETCH_MESSAGES)
        check_between("max_wait_s", self.max_wait_s, 0.0, MAX_FETCH_WAIT_S)
        check_optional("max_bytes", self.max_bytes, 1, 1 << 31)
        check_optional("idle_timeout_s", self.idle_timeout_s, 0.0, 1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(FetchOptions):
    """Limits of one fetch of a reader, whose batches are larger: nobody confirms them."""

    max_messages: int = 10_000
    max_bytes: int | None = 4 << 20


class ConsumerOptions:
    """Options of a consumer of a group that the Master balances."""

    def __init__(
        self,
        group: str,
        topic: str,
        *topics: str,
        start: Start = Start.LATEST,
        filters: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        confirm_timeout_s: float | None = CONFIRM_TIMEOUT_S,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
        fetch_interval_s: float = 0.0,
        max_messages_per_s: float | None = None,
        max_bytes_per_s: float | None = None,
        bound: Bound | None = None,
    ) -> None:
        self.topics: Final = check_topics((topic, *topics))
        self.group: Final = check_group(group)
        self.filters: Final[Mapping[str, frozenset[str]]] = check_filters(self.topics, filters)
        self.start: Final = check_start(start)
        self.confirm_timeout_s: Final = check_optional("confirm_timeout_s", confirm_timeout_s, 0.05, 86_400.0)
        """None: a batch is never given back automatically."""
        self.close_timeout_s: Final = check_between("close_timeout_s", close_timeout_s, 0.0, 3_600.0)
        self.fetch_interval_s: Final = check_between("fetch_interval_s", fetch_interval_s, 0.0, 3_600.0)
        self.max_messages_per_s: Final = check_optional("max_messages_per_s", max_messages_per_s, 0.001, 1e9)
        self.max_bytes_per_s: Final = check_optional("max_bytes_per_s", max_bytes_per_s, 1.0, 1e12)
        self.bound: Final = bound
        for partition in () if bound is None else bound.offsets:
            if partition.topic not in self.topics:
                raise ConfigError(
                    f"bound.offsets names {partition}, of a topic that this consumer does not read",
                    hint=f"its topics are {', '.join(self.topics)}",
                )


class PushOptions:
    """Options of a consumer that calls a handler."""

    def __init__(
        self,
        group: str,
        topic: str,
        *topics: str,
        handler: Handler,
        workers: int = 8,
        by_message: bool = False,
        on_error: OnError = "retry",
        max_messages: int = BATCH_MESSAGES,
        max_wait_s: float = FETCH_WAIT_S,
        max_bytes: int | None = None,
        start: Start = Start.LATEST,
        filters: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
        fetch_interval_s: float = 0.0,
        max_messages_per_s: float | None = None,
        max_bytes_per_s: float | None = None,
        bound: Bound | None = None,
    ) -> None:
        if on_error not in get_args(OnError):
            raise ConfigError(f"on_error is {on_error!r}", hint="write 'retry', 'skip' or 'stop'")
        self.handler: Final = handler
        self.workers: Final = check_between("workers", workers, 1, MAX_PUSH_WORKERS)
        self.by_message: Final = by_message
        self.on_error: Final[OnError] = on_error
        self.fetch: Final = FetchOptions(max_messages=max_messages, max_wait_s=max_wait_s, max_bytes=max_bytes)
        self.consumer: Final = ConsumerOptions(
            group,
            topic,
            *topics,
            start=start,
            filters=filters,
            confirm_timeout_s=None,
            close_timeout_s=close_timeout_s,
            fetch_interval_s=fetch_interval_s,
            max_messages_per_s=max_messages_per_s,
            max_bytes_per_s=max_bytes_per_s,
            bound=bound,
        )


class BalanceOptions(ConsumerOptions):
    """Options of a consumer that chooses its partitions itself; by default a batch stays with its user as long as it
    takes."""

    def __init__(
        self,
        group: str,
        topic: str,
        *topics: str,
        node_id: int | None = None,
        source_count: int | None = None,
        start: Start = Start.LATEST,
        filters: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
        manual: bool = False,
        confirm_timeout_s: float | None = None,
        close_timeout_s: float = CLOSE_TIMEOUT_S,
        fetch_interval_s: float = 0.0,
        max_messages_per_s: float | None = None,
        max_bytes_per_s: float | None = None,
        meta_check_s: float = 10.0,
        node_wait_s: float = CLIENT_TIMEOUT_S + 10.0,
    ) -> None:
        """The default of `meta_check_s` is the original's partMetaInfoCheckPeriodMs; that of `node_wait_s` the time in
        which the Master notices a dead member, which keeps its number until then."""
        super().__init__(
            group,
            topic,
            *topics,
            start=start,
            filters=filters,
            confirm_timeout_s=confirm_timeout_s,
            close_timeout_s=close_timeout_s,
            fetch_interval_s=fetch_interval_s,
            max_messages_per_s=max_messages_per_s,
            max_bytes_per_s=max_bytes_per_s,
        )
        if (node_id is None) != (source_count is None):
            raise ConfigError(
                "only one of node_id and source_count is given",
                hint="write both, as in node_id=0, source_count=2; without them write manual=True",
            )
        if node_id is not None and source_count is not None:
            check_node(source_count, node_id)
        elif not manual:
            raise ConfigError(
                "neither a share of the partitions nor manual=True is given",
                hint="write node_id=0, source_count=2 for the first of two; or manual=True and connect to partitions",
            )
        self.node_id: Final = node_id
        self.source_count: Final = source_count
        self.manual: Final = manual
        self.meta_check_s: Final = check_between("meta_check_s", meta_check_s, 0.1, 3_600.0)
        self.node_wait_s: Final = check_between("node_wait_s", node_wait_s, 0.0, 3_600.0)

    @property
    def numbers(self) -> tuple[int, int]:
        """`sourceCount` and `nodeId` as the protocol has them."""
        if self.source_count is None or self.node_id is None:
            return UNDEFINED, UNDEFINED
        return self.source_count, self.node_id


class ReaderOptions:
    """Options of a reader of a range of one partition."""

    def __init__(
        self,
        partition: Partition | str,
        *,
        start: int | Start | str | datetime = Start.EARLIEST,
        end: int | Start | str | datetime | None = None,
        end_exists: bool = False,
        on_malformed: OnMalformed = "raise",
        retry_for_s: float = DEFAULT_READER_RETRY_S,
        filters: Sequence[str] | None = None,
    ) -> None:
        self.partition: Final = Partition.parse(partition) if isinstance(partition, str) else partition
        topic = self.partition.topic
        self.filters: Final = check_filters((topic,), filters).get(topic, frozenset())
        self.start: Final = check_place("start", start)
        self.end: Final = None if end is None else check_place("end", end)
        self.end_exists: Final = end_exists
        if on_malformed not in get_args(OnMalformed):
            raise ConfigError(f"on_malformed is {on_malformed!r}", hint='write "raise" or "raw"')
        self.on_malformed: Final = on_malformed
        self.retry_for_s: Final = retry_for_s
