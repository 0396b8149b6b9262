"""The pages on decoding: written from the table, with an example that runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pyarrow as pa

from pytubemq.spark.decode import make_decoder
from pytubemq.spark.decode.page import page

if TYPE_CHECKING:
    import pytest

DOCS = Path(__file__).parents[4] / "docs"
BLOCKS = re.findall(r"```python\n(.*?)```", (DOCS / "how-to" / "decode.md").read_text("utf-8"), re.DOTALL)


def test_the_page_of_formats_is_as_the_table_says() -> None:
    written = (DOCS / "reference" / "decode-formats.md").read_text("utf-8")
    assert written == page(), "write it anew with scripts/write_spark_pages.py"


def test_the_example_without_spark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [block for block in BLOCKS if "pyarrow" in block]
    exec(compile(example, "decode.md", "exec"), {})
    assert capsys.readouterr().out.startswith("0 ['no InLongMsg: ")


def test_the_example_that_makes_inlongmsg_sends_what_the_decoder_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    tube = MagicMock()
    monkeypatch.setattr("pytubemq.sync.connect", tube)
    (example,) = [block for block in BLOCKS if "encode_inlong" in block]
    exec(compile(example, "decode.md", "exec"), {})
    producer = tube.return_value.__enter__.return_value.producer.return_value.__enter__.return_value
    (body,) = producer.send.call_args.args
    done = make_decoder("inlong-msg", schema="id INT, item STRING", inner="csv").decode(
        pa.record_batch({"body": [body]})
    )
    assert [(row["id"], row["item"]) for row in done.rows.to_pylist()] == [(1, "apple"), (2, "pear")]
    assert done.rows.column("inlongmsg_time").null_count == 0
