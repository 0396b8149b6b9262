"""The how-to about the records in PostgreSQL, command by command: moved, led by one, taken over by the other."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.store_pages import Master, blocks, run

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

pytestmark = pytest.mark.scenario

PAGE = Path(__file__).parents[3] / "docs/how-to/keep-metadata-in-postgresql.md"
PASSWORD = "a-long-password"


def test_the_page_moves_a_masters_records_and_lets_another_one_stand_by(postgres: Postgres, tmp_path: Path) -> None:
    made, asked = blocks(PAGE, "sql")
    for statement in made.strip().split(";\n"):
        postgres.run(statement)
    there = f"{postgres.address}/pytubemq"
    commands = "\n".join(blocks(PAGE, "")).replace("db.example:5432/pytubemq", there)
    (settings,) = (text.replace("db.example:5432/pytubemq", there) for text in blocks(PAGE, "toml"))
    with ExitStack() as stack:
        first = Master(tmp_path / "first")
        stack.callback(lambda: first.end(signal.SIGKILL))
        first.start()
        first.until_it_serves()
        alter = ("pytubemq", "cluster", "alter", "--retention", "200h", "--http", f"http://{first.page}")
        run(first.home, *alter)
        before = first.retention()
        assert "200h" in before
        first.end(signal.SIGTERM)
        secret, migrations = commands.split("pytubemq master migrate", 1)
        run(first.home, "sh", "-euc", secret)
        dry, copied = (f"pytubemq master migrate{line}" for line in migrations.split("pytubemq master migrate"))
        assert "nothing was changed" in run(first.home, *dry.split()).stderr
        assert "found them equal" in run(first.home, *copied.split()).stderr
        first.configure(settings)
        first.start()
        first.until_it_serves()
        assert first.retention() == before
        second = Master(tmp_path / "second", settings)
        stack.callback(lambda: second.end(signal.SIGKILL))
        run(second.home, "sh", "-euc", secret)
        second.start()
        second.until_it_says(f"{first.address} leads with epoch")
        assert postgres.run(asked, database="pytubemq")[0][0] == first.address
        first.end(signal.SIGTERM)
        second.until_it_serves()
        assert second.retention() == before
        assert postgres.run(asked, database="pytubemq")[0][0] == second.address
        assert PASSWORD not in first.log + second.log
