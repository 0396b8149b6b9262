"""The tables that a query reads, told from its words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.pipelines.analysis.sql_names import names_read


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM decode(TABLE(messages), 'json'), TABLE (a) x", ["messages", "a"]),
        ("SELECT * FROM f(TABLE(SELECT * FROM a))", ["a"]),
        ("SELECT * FROM a", ["a"]),
        ("SELECT * FROM a, b AS x, c y WHERE f(a, d)", ["a", "b", "c"]),
        ("SELECT * FROM a JOIN b ON a.x = b.x LEFT OUTER JOIN c USING (x)", ["a", "b", "c"]),
        ("SELECT * FROM (SELECT * FROM a) x, b", ["a", "b"]),
        ("SELECT * FROM (a JOIN b ON true)", ["a", "b"]),
        ("SELECT (SELECT max(x) FROM b), y FROM a", ["b", "a"]),
        ("SELECT * FROM a WHERE x IN (SELECT y FROM b) AND EXISTS (SELECT 1 FROM c)", ["a", "b", "c"]),
        ("WITH t AS (SELECT * FROM a), u (p, q) AS (SELECT 1, 2) SELECT * FROM t, u", ["a"]),
        ("FROM a SELECT x", ["a"]),
        ("SELECT EXTRACT(YEAR FROM at), TRIM(BOTH ' ' FROM s), substring(s FROM 2 FOR 3) FROM a", ["a"]),
        ("SELECT x IS DISTINCT FROM y, x IS NOT DISTINCT FROM z FROM a", ["a"]),
        ("SELECT * FROM a -- FROM b\n /* FROM c */ WHERE x = 'FROM d' AND \"FROM e\" = `FROM f`", ["a"]),
        ("SELECT * FROM db.a, parquet.`/x`, cat.db.b", []),
        ("SELECT * FROM range(10), explode_it(1) JOIN a", ["a"]),
        ("SELECT * FROM a LATERAL VIEW explode(x) t AS y, b", ["a"]),
        ("SELECT * FROM VALUES (1, 2), (3, 4) AS t(x, y)", []),
        ("SELECT * FROM `input` UNION ALL SELECT a, b FROM `od``d`", ["input", "od`d"]),
        ("SELECT window(at, '1 minute'), count(*) FROM a GROUP BY window(at, '1 minute'), b", ["a"]),
        ("SELECT * FROM a TABLESAMPLE (10 PERCENT), b ORDER BY x, y", ["a", "b"]),
    ],
)
def test_names_read(sql: str, names: list[str]) -> None:
    assert [read.name for read in names_read(sql)] == names


def test_a_name_is_told_with_its_place() -> None:
    assert [(read.line, read.column) for read in names_read("SELECT *\nFROM  a\n  JOIN b")] == [(2, 7), (3, 8)]


@given(st.text(alphabet=st.sampled_from(list("abfromjoin ,()'\"`-/*\n.withselect")), max_size=80))
def test_whatever_a_query_is_looking_at_it_ends_well(sql: str) -> None:
    for read in names_read(sql):
        assert read.name or "``" in sql
        assert read.line >= 1
