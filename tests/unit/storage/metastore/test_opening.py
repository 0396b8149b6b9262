"""Which store a Master gets, and what keeps it from a wrong one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pytubemq.core.database.postgres_options import PostgresOptions
from pytubemq.errors import ConfigError, MissingExtraError
from pytubemq.storage.metastore.opening import MOVED_MARK, lead_in_database, open_database, open_metastore
from pytubemq.storage.metastore.sqlite import SqliteMetaStore
from tests.support.metadata import GROUP
from tests.support.postgres_stores import options_of, succeed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres import Postgres


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("postgres", "postgres_connection"):
        monkeypatch.delitem(sys.modules, f"pytubemq.storage.metastore.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"needs the extra \[postgres\]"):
        open_database(PostgresOptions("postgresql://ann@127.0.0.1:1/tubemq"))


@pytest.mark.process
def test_an_empty_database_does_not_hide_the_records_of_a_file(postgres: Postgres, tmp_path: Path) -> None:
    file = SqliteMetaStore(tmp_path / "meta.db")
    file.apply([GROUP], [])
    file.close()
    options = options_of(postgres, postgres.new_database())
    with pytest.raises(ConfigError, match=r"has records, and the database .* has none") as caught:
        lead_in_database(options, 1, directory=tmp_path)
    assert "pytubemq master migrate" in str(caught.value)


@pytest.mark.process
def test_a_database_with_records_is_used_whatever_the_file_has(postgres: Postgres, tmp_path: Path) -> None:
    database = postgres.new_database()
    options = options_of(postgres, database)
    lead_in_database(options, 1, directory=None).close()
    first = lead_in_database(options, succeed(postgres, database), directory=tmp_path)
    first.apply([GROUP], [])
    first.close()
    file = SqliteMetaStore(tmp_path / "meta.db")
    file.apply([GROUP], [])
    file.close()
    store = lead_in_database(options, succeed(postgres, database), directory=tmp_path)
    assert store.load().groups == [GROUP]
    store.close()


@pytest.mark.process
def test_the_old_records_of_a_file_are_not_used_once_a_database_has_them(postgres: Postgres, tmp_path: Path) -> None:
    file = SqliteMetaStore(tmp_path / "meta.db")
    file.apply([GROUP], [])
    file.close()
    open_metastore(tmp_path).close()
    database = postgres.new_database()
    options = options_of(postgres, database)
    lead_in_database(options, 1, directory=None).close()
    first = lead_in_database(options, succeed(postgres, database), directory=None)
    first.apply([GROUP], [])
    first.close()
    lead_in_database(options, succeed(postgres, database), directory=tmp_path).close()
    with pytest.raises(ConfigError, match=f"are old: this Master has had them in .*{database}.* since") as caught:
        open_metastore(tmp_path)
    assert postgres.password not in str(caught.value)
    (tmp_path / MOVED_MARK).unlink()
    open_metastore(tmp_path).close()
