"""A metadata store in ZooKeeper.

The invariants: a change is one transaction. It names the version of `epoch` with which its Master leads, so a former
leader changes nothing, and the version of `state` that its Master knows, so no change overwrites one that it does not
know; what is loaded is all that was written, or an error that names what is damaged. A layout of a
newer version is refused and left untouched.

A transaction whose response is lost is looked up: it took place, or it is made impossible by a new version of `state`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from pytubemq.core.database.database_limits import DATABASE_RESPONSE_TIMEOUT_S
from pytubemq.errors import (
    CorruptError,
    DatabaseTimeoutError,
    DatabaseUnreachableError,
    FencedError,
    NewerVersionError,
    NotFoundError,
    StorageError,
)
from pytubemq.model.records import BrokerRecord, DeployRecord, TopicRecord
from pytubemq.storage.metastore.checks import Totals
from pytubemq.storage.metastore.problems import dangling
from pytubemq.storage.metastore.reading import damage_text, metadata_of, note_missing
from pytubemq.storage.metastore.tables import TABLES, key_of
from pytubemq.storage.metastore.zookeeper_store.nodes import (
    LAYOUT,
    first_nodes,
    name_of_key,
    node_name,
    read_record,
    read_state,
    record_content,
    state_content,
)
from pytubemq.storage.metastore.zookeeper_store.session import ZooKeeperSession, failed, refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pytubemq.core.database.zookeeper_options import ZooKeeperOptions
    from pytubemq.model.records import Record
    from pytubemq.storage.metastore.port import Metadata
    from pytubemq.storage.metastore.zookeeper_store.nodes import NodeName

MAX_CHANGE_BYTES: Final = 900_000
"""One change: ZooKeeper's servers end the connection at a request of 1 MiB (`jute.maxbuffer`)."""
_OPERATION_BYTES: Final = 64
"""Bytes of an operation beside its path and its content."""
_WINDOW: Final = 256
"""Reads that are under way at the same time."""
_LOOKUP_PAUSE_S: Final = 0.1
_RESTORE: Final = "restore the nodes from a backup"


@dataclass(slots=True)
class _Known:
    """What this Master knows of the nodes; a write is refused if they have changed since."""

    totals: Totals
    last_serial_id: int
    version: int
    """The version of the node `state`."""
    checks: dict[NodeName, int] = field(default_factory=dict)
    """The checksum of each record."""
    deploys: set[tuple[str, int]] = field(default_factory=set)
    """The topics on Brokers."""


class ZooKeeperMetaStore:
    """`MetaStore` in the nodes below a root; they are made if they are not there.

    Args:
        options: the servers and the root.
        create: make the nodes.

    Raises:
        NotFoundError: there are no nodes, and none are to be made.
        NewerVersionError: a newer version made the nodes.
        ConfigError: they belong to another user.
        DatabaseUnreachableError, DatabaseTimeoutError: ZooKeeper is away, or too slow.
    """

    def __init__(self, options: ZooKeeperOptions, *, create: bool = True) -> None:
        self._options = options
        self._session = ZooKeeperSession(options)
        self._epoch = 0
        self._known: _Known | None = None
        try:
            self._prepare(create=create)
        except BaseException:
            self._session.close()
            raise

    def lead(self, epoch: int) -> None:
        """Write from now on as the leader of this epoch; whoever becomes the leader loads the records after this."""
        self._epoch = epoch
        self._known = None

    def changes(self) -> int:
        """Return how many changes there have been."""
        self._sync()
        found = read_state(self._get(self._options.node("state"))[0])
        return 0 if found is None else found[0].generation

    def load(self) -> Metadata:
        # Else a server that lags behind shows what was there before the last changes.
        self._sync()
        content, version = self._get(self._options.node("state"))
        state = read_state(content)
        known = _Known(Totals(), 0, version)
        records: dict[type[Any], list[Any]] = {}
        damaged: list[str] = [] if state is not None else ["the count of its records"]
        counted = Totals()
        for table in TABLES:
            records[table.kind] = []
            for name, found in self._contents(table.name):
                record, check = read_record(table, name, found)
                counted = counted.plus(check)
                known.checks[table.name, name] = check
                if record is None:
                    damaged.append(f"the record of {table.name.replace('_', ' ')} {name[1:81]}")
                else:
                    records[table.kind].append(record)
            records[table.kind].sort(key=key_of)
        if self._get(self._options.node("state"))[1] != version:
            raise StorageError(
                f"the records in {self._options.place} were changed while they were read",
                hint="try again once the Master that leads has nothing to write",
            )
        if state is not None:
            known.totals, known.last_serial_id = state
            note_missing(damaged, counted, known.totals)
        if damaged:
            raise CorruptError(
                f"{self._options.place} is damaged, or was changed by another program: {damage_text(damaged)}",
                hint=_RESTORE,
            )
        metadata = metadata_of(records, known.last_serial_id)
        known.deploys = {(deploy.topic, deploy.broker_id) for deploy in metadata.deploys}
        self._known = known
        return metadata

    def apply(self, puts: Sequence[Record], deletes: Sequence[Record]) -> None:
        if self._epoch <= 0:
            raise FencedError(
                f"this Master does not lead, so it changes nothing in {self._options.place}",
                hint="ask the Master that leads",
            )
        if self._known is None:
            self.load()
        assert self._known is not None
        contents, after = _change(self._known, puts, deletes)
        operations = self._operations(self._known, contents, after)
        try:
            results = self._session.multi(
                operations, limit_s=DATABASE_RESPONSE_TIMEOUT_S, connect_s=self._options.connect_limit_s
            )
        except (DatabaseUnreachableError, DatabaseTimeoutError) as error:
            self._look_up(after, error)
        else:
            self._check_results(results)
            after.version = results[1].version
        self._known = after

    def close(self) -> None:
        self._session.close()

    # --- the nodes ----------------------------------------------------------------------------------------------

    def _prepare(self, *, create: bool) -> None:
        if self._has_layout():
            return
        if not create:
            raise NotFoundError(f"{self._options.place} has no records of a Master", hint="start a Master on it first")
        self._call(lambda client: client.ensure_path_async(self._options.root))

        def change(transaction: Any) -> None:
            for name, content in first_nodes().items():
                transaction.create(self._options.node(name), content)

        refused = failed(self._session.multi(change, limit_s=DATABASE_RESPONSE_TIMEOUT_S))
        # Several Masters may start at once.
        if refused is not None and not isinstance(refused[1], NodeExistsError):
            raise refusal(self._options, refused[1])
        if not self._has_layout():
            raise CorruptError(
                f"{self._options.place} has some of a Master's nodes, and no layout",
                hint="name another node in the URL, or remove what is there",
            )

    def _has_layout(self) -> bool:
        """Return whether the nodes are there; refuse a newer version of them."""
        self._sync()
        found = self._call(lambda client: client.get_async(self._options.node("layout")), accepts=NoNodeError)
        if isinstance(found, NoNodeError):
            return False
        text = found[0].decode("ascii", "replace")
        # Before anything is written, as this program would drop what it does not know.
        if text.isdigit() and int(text) > LAYOUT:
            raise NewerVersionError(
                f"{self._options.place} has layout {text[:20]}, this version knows up to {LAYOUT}",
                hint="run the pytubemq version that made it, or a newer one",
            )
        if text != str(LAYOUT):
            raise CorruptError(f"the version of the layout is damaged in {self._options.place}", hint=_RESTORE)
        return True

    def _sync(self) -> None:
        self._call(lambda client: client.sync_async("/"))

    def _get(self, path: str) -> tuple[bytes, int]:
        found = self._call(lambda client: client.get_async(path), accepts=NoNodeError)
        if isinstance(found, NoNodeError):
            raise CorruptError(f"the node {path} is missing in {self._options.place}", hint=_RESTORE)
        return found[0], found[1].version

    def _contents(self, table: str) -> Iterable[tuple[str, bytes]]:
        """Yield the name and the content of each node of a kind; many are asked for at a time."""
        parent = self._options.node("records", table)
        names = self._call(lambda client: client.get_children_async(parent), accepts=NoNodeError)
        if isinstance(names, NoNodeError):
            raise CorruptError(f"the node {parent} is missing in {self._options.place}", hint=_RESTORE)
        for begin in range(0, len(names), _WINDOW):
            some = names[begin : begin + _WINDOW]
            asked: list[Any] = []

            def ask(client: Any, some: list[str] = some, asked: list[Any] = asked) -> Any:
                asked.extend(client.get_async(f"{parent}/{name}") for name in some)
                return asked[-1]

            # The responses come in the order of the requests.
            self._call(ask, accepts=NoNodeError)
            for name, result in zip(some, asked, strict=True):
                if isinstance(result.exception, NoNodeError):
                    continue  # the state has changed then, which the caller sees
                yield name, self._call(lambda _, result=result: result)[0]

    def _call(self, begin: Callable[..., Any], accepts: Any = ()) -> Any:
        return self._session.call(
            begin, limit_s=DATABASE_RESPONSE_TIMEOUT_S, connect_s=self._options.connect_limit_s, accepts=accepts
        )

    # --- a change -----------------------------------------------------------------------------------------------

    def _operations(
        self, known: _Known, contents: dict[NodeName, bytes | None], after: _Known
    ) -> Callable[[Any], None]:
        state, version = state_content(after.totals, after.last_serial_id), known.version
        changed = [
            (self._options.node("records", *name), name in known.checks, found) for name, found in contents.items()
        ]
        size = sum(_OPERATION_BYTES + len(path.encode()) + len(found or b"") for path, _, found in changed)
        if size > MAX_CHANGE_BYTES:
            raise StorageError(
                f"a change of {len(changed)} records has {size} bytes, and ZooKeeper takes {MAX_CHANGE_BYTES} in one",
                hint="change fewer records at a time; for more records than that, keep them in PostgreSQL",
            )

        def change(transaction: Any) -> None:
            transaction.check(self._options.node("epoch"), self._epoch)
            transaction.set_data(self._options.node("state"), state, version=version)
            for path, is_there, found in changed:
                if found is None:
                    transaction.delete(path)
                elif is_there:
                    transaction.set_data(path, found)
                else:
                    transaction.create(path, found)

        return change

    def _check_results(self, results: Sequence[Any]) -> None:
        """Raise the error of a transaction that had no effect."""
        refused = failed(results)
        if refused is None:
            return
        index, error = refused
        if index == 0 and isinstance(error, BadVersionError):
            raise FencedError(
                f"this Master no longer leads in {self._options.place}: another one has led since, and this one had "
                f"epoch {self._epoch}; nothing was changed",
                hint="ask the Master that leads; this one starts again as a standby",
            )
        if index == 1 and isinstance(error, BadVersionError):
            raise StorageError(
                f"the records in {self._options.place} are not those that this Master knows. Either somebody else "
                "wrote them, or a change that was reported as failed has been stored after all",
                hint="restart this Master, which then loads them again",
            )
        if isinstance(error, (NoNodeError, NodeExistsError)):
            raise CorruptError(
                f"{self._options.place} is damaged, or was changed by another program: a node is missing, or is there "
                "and should not be; nothing was changed",
                hint=_RESTORE,
            )
        raise refusal(self._options, error)

    def _look_up(self, after: _Known, error: StorageError) -> None:
        """Return if a transaction whose response was lost took place.

        Raises:
            DatabaseUnreachableError: it did not and will not, or nobody can say in time.
            FencedError: another Master leads, and its changes cannot be told from this one.
        """
        known = self._known
        assert known is not None
        end_s = time.monotonic() + self._options.connect_limit_s + DATABASE_RESPONSE_TIMEOUT_S
        while time.monotonic() < end_s:
            try:
                settled = self._settle(known, after)
            except (DatabaseUnreachableError, DatabaseTimeoutError):
                time.sleep(_LOOKUP_PAUSE_S)
                continue
            if settled is None:
                continue
            if settled:
                return
            raise DatabaseUnreachableError(f"{error.message}; nothing was changed", hint=error.hint) from error
        raise DatabaseUnreachableError(
            f"{error.message}; whether the change was stored is not known",
            hint="check whether it was, once ZooKeeper responds; if it was, this Master refuses all changes "
            "until it is restarted",
        ) from error

    def _settle(self, known: _Known, after: _Known) -> bool | None:
        """Return True if the change of `after` took place, False if it never will, None to look again."""
        self._sync()
        content, version = self._get(self._options.node("state"))
        epoch = self._get(self._options.node("epoch"))[1]
        if epoch != self._epoch:
            raise FencedError(
                f"this Master no longer leads, and its connection to {self._options.place} broke during its last "
                "change: whether that was stored is not known",
                hint="look whether it was, at the Master that leads; this one starts again as a standby",
            )
        if content == state_content(after.totals, after.last_serial_id):
            after.version = version
            return True
        if content != state_content(known.totals, known.last_serial_id):
            return False  # somebody else's; the next change says so

        def change(transaction: Any) -> None:
            # The lost request may still be under way between two servers: a new version makes it fail there.
            transaction.check(self._options.node("epoch"), self._epoch)
            transaction.set_data(self._options.node("state"), content, version=version)

        results = self._session.multi(change, limit_s=DATABASE_RESPONSE_TIMEOUT_S)
        if failed(results) is not None:
            return None
        known.version = results[1].version
        return False


def _change(
    known: _Known, puts: Sequence[Record], deletes: Sequence[Record]
) -> tuple[dict[NodeName, bytes | None], _Known]:
    """Return the new contents of nodes, None for those that go, and what is known after that.

    Raises:
        NotFoundError: a topic would be on a Broker, or be a topic, that is not known.
    """
    after = _Known(known.totals.next(), known.last_serial_id, known.version, dict(known.checks), set(known.deploys))
    contents: dict[NodeName, bytes | None] = {}
    # Deletes come first, so that one change can replace a record by another one of its key.
    for record in deletes:
        name = node_name(record)
        if name in known.checks:
            contents[name] = None
    for record in puts:
        contents[node_name(record)] = b""
    for name in contents:
        if name in after.checks:
            after.totals = after.totals.minus(after.checks.pop(name))
    last: dict[NodeName, Record] = {node_name(record): record for record in puts}
    for name, record in last.items():
        contents[name], check = record_content(record)
        after.checks[name] = check
        after.totals = after.totals.plus(check)
    _check_deploys(after, deletes, last.values())
    # Numbers never come again, also not after the newest record was deleted: clients compare them.
    after.last_serial_id = max([known.last_serial_id, *(record.stamp.serial_id for record in puts)])
    return contents, after


def _check_deploys(after: _Known, deletes: Iterable[Record], puts: Iterable[Record]) -> None:
    asked: set[tuple[str, int]] = set()
    for record in deletes:
        if isinstance(record, DeployRecord) and node_name(record) not in after.checks:
            after.deploys.discard((record.topic, record.broker_id))
    for record in puts:
        if isinstance(record, DeployRecord):
            after.deploys.add((record.topic, record.broker_id))
            asked.add((record.topic, record.broker_id))
    if any(isinstance(record, (TopicRecord, BrokerRecord)) for record in deletes):
        asked = after.deploys
    for topic, broker_id in asked:
        if not {name_of_key("topic", topic), name_of_key("broker", broker_id)} <= after.checks.keys():
            raise dangling(topic, broker_id)
