"""The examples of the page on decoding run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pyarrow as pa

from pytubemq.decode import make_decoder

if TYPE_CHECKING:
    import pytest

PAGE = Path(__file__).parents[3] / "docs/how-to/decode.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def test_the_example_without_spark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [block for block in BLOCKS if "pyarrow" in block]
    exec(compile(example, "decode.md", "exec"), {})
    assert capsys.readouterr().out.startswith("0 ['not an InLongMsg: ")


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
