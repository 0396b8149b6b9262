"""What only a database can show: fencing, lost connections, errors of the server."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import (
    ConfigError,
    CorruptError,
    DatabaseReadOnlyError,
    DatabaseTimeoutError,
    DatabaseUnreachableError,
    FencedError,
    NewerVersionError,
    StorageError,
)
from pytubemq.model.ids import Address
from pytubemq.model.records import BrokerRecord, GroupRecord
from pytubemq.storage.metastore import postgres_connection
from pytubemq.storage.metastore.postgres import PostgresMetaStore
from tests.support.ports import free_port
from tests.support.postgres_stores import leading_store, open_store, options_of, succeed

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

pytestmark = pytest.mark.process

IDLE = "idle_in_transaction_session_timeout"
GROUP = GroupRecord("g", alwd_broker_client_rate=4)
BROKER = BrokerRecord(1, Address("127.0.0.1", 8123))


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a machine that stands still for seconds within a transaction end none."""
    monkeypatch.setitem(postgres_connection._LIMITS, IDLE, "300s")


@pytest.fixture
def database(postgres: Postgres) -> str:
    return postgres.new_database()


def test_another_process_loads_what_was_written(postgres: Postgres, database: str) -> None:
    first = leading_store(postgres, database)
    first.apply([GROUP, BROKER], [])
    second = open_store(postgres, database)
    assert second.load() == first.load()
    for store in (first, second):
        store.close()


def test_a_master_that_does_not_lead_changes_nothing(postgres: Postgres, database: str) -> None:
    store = open_store(postgres, database)
    with pytest.raises(FencedError, match="does not lead"):
        store.apply([GROUP], [])
    assert store.load().groups == []
    store.close()


def test_an_older_epoch_changes_nothing(postgres: Postgres, database: str) -> None:
    old = leading_store(postgres, database)
    old.apply([GROUP], [])
    new = open_store(postgres, database)
    new.lead(succeed(postgres, database, "127.0.0.1:8715"))
    before = new.load()
    with pytest.raises(FencedError, match=r"127\.0\.0\.1:8715 leads with epoch 2, and this one had 1"):
        old.apply([BROKER], [GROUP])
    assert new.load() == before
    new.apply([BROKER], [])
    assert new.load().brokers == [BROKER]
    for store in (old, new):
        store.close()


def test_a_new_leader_waits_for_the_write_that_is_under_way(postgres: Postgres, database: str) -> None:
    store = leading_store(postgres, database)
    proven, go_on = threading.Event(), threading.Event()
    write_state = store._locked_state

    def held() -> object:
        proven.set()
        assert go_on.wait(60)
        return write_state()

    store._locked_state = held  # type: ignore[assignment,method-assign]
    writing = threading.Thread(target=store.apply, args=([GROUP], []))
    writing.start()
    assert proven.wait(60)
    # A renewal of the lease does not wait: it leaves the epoch as it is.
    postgres.run("SET lock_timeout = '20s'; UPDATE pytubemq.lease SET renewals = renewals + 1", database=database)
    with pytest.raises(Exception, match="lock timeout"):
        postgres.run("SET lock_timeout = '10ms'; UPDATE pytubemq.lease SET epoch = epoch + 1", database=database)
    go_on.set()
    writing.join(60)
    succeed(postgres, database)
    assert store.load().groups == [GROUP]
    store.close()


def test_records_that_somebody_else_has_written_end_the_writing(postgres: Postgres, database: str) -> None:
    store, other = leading_store(postgres, database), open_store(postgres, database)
    store.load()
    other.lead(1)
    other.apply([GROUP], [])
    with pytest.raises(StorageError, match="1 changes, this Master knows of 0"):
        store.apply([BROKER], [])
    for one in (store, other):
        one.close()


def test_a_broken_connection_is_opened_again(postgres: Postgres, database: str) -> None:
    store = leading_store(postgres, database)
    store.load()
    for put in (GROUP, BROKER):
        _end_connections(postgres, database)
        store.apply([put], [])
    assert (store.load().groups, store.load().brokers) == ([GROUP], [BROKER])
    store.close()


@pytest.mark.parametrize("stored", [False, True])
def test_the_outcome_of_a_commit_that_broke_is_looked_up(
    postgres: Postgres, database: str, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = leading_store(postgres, database)
    before = store.load()
    rows = store._connection.rows

    def breaking(statement: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        if statement == "COMMIT" and not broken:
            broken.append(True)
            if stored:
                rows(statement)
            _end_connections(postgres, database)
        return rows(statement, values)

    broken: list[bool] = []
    monkeypatch.setattr(store._connection, "rows", breaking)
    if stored:
        store.apply([GROUP], [])
        assert store.load().groups == [GROUP]
    else:
        with pytest.raises(DatabaseUnreachableError, match="nothing was changed"):
            store.apply([GROUP], [])
        assert store.load() == before
    store.apply([BROKER], [])  # and it goes on
    assert store.load().brokers == [BROKER]
    store.close()


def test_a_change_of_the_next_leader_is_not_taken_for_the_commit_that_broke(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = leading_store(postgres, database)
    old.load()
    rows = old._connection.rows

    def breaking(statement: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        if statement == "COMMIT" and not broken:
            broken.append(True)
            _end_connections(postgres, database)
            new = leading_store(postgres, database)
            new.apply([BROKER], [])
            new.close()
        return rows(statement, values)

    broken: list[bool] = []
    monkeypatch.setattr(old._connection, "rows", breaking)
    with pytest.raises(FencedError, match="whether that was stored is not known"):
        old.apply([GROUP], [])
    found = old.load()
    assert (found.groups, found.brokers) == ([], [BROKER])
    old.close()


def test_a_database_that_is_away_is_named_without_the_password(postgres: Postgres) -> None:
    options = options_of(postgres, "nosuch", address=f"127.0.0.1:{free_port()}")
    with pytest.raises(DatabaseUnreachableError, match=r"postgresql://127\.0\.0\.1:\d+/nosuch") as caught:
        PostgresMetaStore(options)
    assert caught.value.retriable
    assert postgres.password not in f"{caught.value} {options!r}"


@pytest.mark.parametrize(
    ("user", "database", "text"),
    [("nobody", "postgres", "authentication failed"), ("pipeline", "nosuch", 'database "nosuch" does not exist')],
)
def test_a_wrong_user_and_a_missing_database_are_named(postgres: Postgres, user: str, database: str, text: str) -> None:
    options = options_of(postgres, database)
    with pytest.raises(DatabaseUnreachableError, match=text) as caught:
        PostgresMetaStore(replace(options, url=postgres.database_url(database, user=user)))
    assert postgres.password not in str(caught.value)


def test_a_user_without_rights_is_told_so(postgres: Postgres, database: str) -> None:
    postgres.run(f"DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN PASSWORD '{postgres.password}'")
    with pytest.raises(ConfigError, match="permission denied"):
        PostgresMetaStore(replace(options_of(postgres, database), url=postgres.database_url(database, user="guest")))


def test_a_database_that_only_reads_is_named(postgres: Postgres, database: str) -> None:
    store = leading_store(postgres, database)
    postgres.run(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    _end_connections(postgres, database)
    with pytest.raises(DatabaseReadOnlyError, match="read-only transaction") as caught:
        store.apply([GROUP], [])
    assert caught.value.retriable
    assert store.load().groups == []
    store.close()


def test_a_lock_that_is_not_given_back_ends_the_write(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres_connection._LIMITS, "lock_timeout", "10ms")
    store, other = leading_store(postgres, database), open_store(postgres, database)
    with other._connection.transaction(postgres_connection.WRITE):
        other._connection.rows("SELECT 1 FROM pytubemq.state FOR UPDATE")
        with pytest.raises(DatabaseTimeoutError, match="lock timeout") as caught:
            store.apply([GROUP], [])
    assert caught.value.retriable
    store.apply([GROUP], [])
    for one in (store, other):
        one.close()


def test_a_server_that_is_stopped_ends_the_wait(
    postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = leading_store(postgres, database)
    ((process,),) = store._connection.rows("SELECT pg_backend_pid()")
    monkeypatch.setattr(postgres_connection, "DATABASE_RESPONSE_TIMEOUT_S", 0.3)
    os.kill(process, signal.SIGSTOP)
    try:
        with pytest.raises(DatabaseUnreachableError, match="too slow: no response"):
            store.load()
    finally:
        os.kill(process, signal.SIGCONT)
    monkeypatch.undo()
    store.apply([GROUP], [])
    assert store.load().groups == [GROUP]
    store.close()


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("UPDATE pytubemq.consumer_group SET alwd_broker_client_rate = 5", "the record of consumer group g"),
        ("DELETE FROM pytubemq.consumer_group", "0 records where 1 should be"),
        ("UPDATE pytubemq.state SET generation = 7", "the count of its records"),
        ("DELETE FROM pytubemq.state", "the count of its records"),
    ],
)
def test_a_change_behind_our_back_is_found(postgres: Postgres, database: str, statement: str, text: str) -> None:
    store = leading_store(postgres, database)
    store.apply([GROUP], [])
    postgres.run(statement, database=database)
    with pytest.raises(CorruptError, match=text):
        store.load()
    store.close()


def test_a_newer_layout_is_refused_untouched(postgres: Postgres, database: str) -> None:
    open_store(postgres, database).close()
    postgres.run("UPDATE pytubemq.layout SET version = 99", database=database)
    with pytest.raises(NewerVersionError, match="layout 99"):
        open_store(postgres, database)
    assert postgres.run("SELECT version FROM pytubemq.layout", database=database) == [(99,)]


def test_a_database_of_another_encoding_is_refused(postgres: Postgres) -> None:
    database = postgres.new_database("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(ConfigError, match="encoding LATIN1"):
        open_store(postgres, database)


@pytest.mark.parametrize("text", ["a\0b", "half \ud800"])
def test_a_text_that_has_no_form_there_is_refused_and_changes_nothing(
    postgres: Postgres, database: str, text: str
) -> None:
    store = leading_store(postgres, database)
    with pytest.raises(StorageError, match="cannot store a value"):
        store.apply([BROKER, GroupRecord("g", flow_ctrl_info=text)], [])
    assert store.load().brokers == []
    store.close()


def _end_connections(server: Postgres, database: str) -> None:
    server.run(
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity "
        f"WHERE datname = '{database}' AND pid <> pg_backend_pid()"
    )
