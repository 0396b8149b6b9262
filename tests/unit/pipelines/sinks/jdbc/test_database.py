"""The SQL that moves a batch in a database, and what its refusals say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytubemq.pipelines.sinks.columns import spelled
from pytubemq.pipelines.sinks.jdbc.database import Database

POSTGRES = Database(None, "jdbc:postgresql://h/d", {})
DERBY = Database(None, "jdbc:derby:x", {})
H2 = Database(None, "jdbc:h2:x", {})


def test_names_are_spelled_as_in_the_table_and_stay_where_it_has_none_like_them() -> None:
    assert spelled(["id", "Day", "x"], ["ID", "Day", "n"]) == ["ID", "Day", "x"]


def test_rows_are_moved_by_key_if_there_are_keys() -> None:
    insert = 'INSERT INTO t ("K", "v") SELECT "K", "v" FROM s'
    for database in (POSTGRES, DERBY, H2):
        assert database.move("t", "s", [], ["K", "v"]) == [insert]
    assert POSTGRES.move("t", "s", ["K"], ["K", "v"]) == [
        f'{insert} ON CONFLICT ("K") DO UPDATE SET "v" = EXCLUDED."v"'
    ]
    assert DERBY.move("t", "s", ["K"], ["K", "v"])[0].startswith('MERGE INTO t t USING s s ON t."K" = s."K" ')
    assert H2.move("t", "s", ["K"], ["K", "v"]) == [
        'DELETE FROM t WHERE EXISTS (SELECT 1 FROM s s WHERE t."K" = s."K")',
        insert,
    ]


def test_postgresql_is_asked_for_the_types_of_spark_s_values_and_others_are_not() -> None:
    kinds = {"b": "BOOLEAN", "a": "TEXT[]"}
    assert POSTGRES.fill_with_none("s", kinds) == [
        'INSERT INTO s ("b", "a") SELECT CAST(NULL AS BOOLEAN), CAST(NULL AS TEXT[]) WHERE FALSE'
    ]
    assert POSTGRES.fill_with_none("s", {}) == DERBY.fill_with_none("s", kinds) == []


@pytest.mark.parametrize(
    ("state", "hint"),
    [
        ("42P10", "create a unique index on exactly the columns of keys"),
        ("42804", "give the table a column of that type"),
        ("42501", "let the account select, insert"),
        ("57014", "check what has a lock there"),
        ("22021", "a row does not fit the table"),
        ("23502", "a row does not fit the table"),
    ],
)
def test_what_a_database_refuses_is_told_in_a_line_with_the_remedy(state: str, hint: str) -> None:
    why = SimpleNamespace(getMessage=lambda: "ERROR: no\n  Detail: why\n  Position: 7", getSQLState=lambda: state)
    refused = POSTGRES._refused(why)
    assert refused.message == "the database at jdbc:postgresql://h/d refused: ERROR: no Detail: why"
    assert (refused.hint or "").startswith(hint)


def test_what_is_refused_for_another_reason_has_no_hint() -> None:
    why = SimpleNamespace(getMessage=lambda: "no", getSQLState=lambda: None)
    assert POSTGRES._refused(why).hint is None
