from __future__ import annotations

import pytest

from pytubemq.core.database.postgres_faults import database_error
from pytubemq.core.database.postgres_options import PostgresOptions
from pytubemq.errors import (
    ConfigError,
    CorruptError,
    DatabaseReadOnlyError,
    DatabaseTimeoutError,
    DatabaseUnreachableError,
    DiskFullError,
    StorageError,
    TubeError,
)

SECRET = "open-sesame-7"
URL = "postgresql://ann@db.example:5432/tubemq?sslmode=verify-full"


def test_a_database_is_shown_without_user_parameters_and_password() -> None:
    options = PostgresOptions(URL, SECRET)
    assert options.place == "postgresql://db.example:5432/tubemq"
    assert SECRET not in f"{options!r} {options}"
    assert options.parameters()["password"] == SECRET


def test_every_wait_has_a_limit_unless_the_url_has_another() -> None:
    found = PostgresOptions(URL).parameters()
    limits = ("connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout")
    assert all(int(found[name]) > 0 for name in limits)
    assert "password" not in found
    assert "connect_timeout" not in PostgresOptions(f"{URL}&connect_timeout=2").parameters()


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (f"postgresql://ann:{SECRET}@db/tubemq", "has a password"),
        (f"postgresql://ann@db/tubemq?password={SECRET}", "has a password"),
        (f"postgresql://ann@db/tubemq?sslPassword={SECRET}", "has a password"),
        (f"postgresql://ann@db/tubemq?oauth_client_secret={SECRET}", "has a password"),
        (f"postgresql://ann@db/tubemq?scram_client_key={SECRET}", "has a password"),
        (f"postgresql://ann:{SECRET}]@[db/tubemq", "malformed"),
        (f"host=db password={SECRET}", "neither `sqlite` nor"),
        ("mysql://db/tubemq", "neither `sqlite` nor"),
        ("postgresql://", "neither `sqlite` nor"),
        ("postgresql://db", "names no database"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_and_a_password_in_it_not_repeated(url: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        PostgresOptions(url)
    assert SECRET not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (None, DatabaseUnreachableError),
        ("08006", DatabaseUnreachableError),
        ("57P01", DatabaseUnreachableError),
        ("53300", DatabaseUnreachableError),
        ("53100", DiskFullError),
        ("25006", DatabaseReadOnlyError),
        ("57014", DatabaseTimeoutError),
        ("55P03", DatabaseTimeoutError),
        ("40P01", DatabaseTimeoutError),
        ("28P01", ConfigError),
        ("42501", ConfigError),
        ("42P01", CorruptError),
        ("22021", StorageError),
        ("XX000", StorageError),
    ],
)
def test_each_error_of_the_server_has_one_of_ours_with_a_hint(code: str | None, error: type[TubeError]) -> None:
    found = database_error(PostgresOptions(URL, SECRET), code, f"FATAL: it failed\n  for {SECRET}")
    assert type(found) is error
    assert "FATAL: it failed; for (password)" in found.message
    assert found.hint
    assert SECRET not in str(found)
