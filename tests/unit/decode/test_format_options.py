"""Formats and options: what is wrong is named, with what was meant."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from pytubemq.decode import make_decoder
from pytubemq.decode.format_options import choose
from pytubemq.decode.format_table import FORMATS, Format
from pytubemq.errors import ConfigError

SCHEMA = "id BIGINT, name STRING"
AVRO = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}'


@pytest.mark.parametrize("name", [each for each in FORMATS if each != "inlong-msg"])
def test_every_format_is_made_by_its_name_inside_of_inlong_msg_too(name: str) -> None:
    options = {"avroSchema": AVRO} if name == "avro" else {}
    schema = {"raw": "line STRING", "avro": None}.get(name, SCHEMA)
    plain = make_decoder(name, schema=schema, options=options)
    wrapped = make_decoder("inlong-msg", schema=schema, inner=name, options=options)
    names = [column.name for column in wrapped.columns]
    assert names == [*(column.name for column in plain.columns), "inlongmsg_time", "inlongmsg_attributes"]
    assert (plain.needs, wrapped.needs) == (("body",), ("body", "attributes"))
    again = pickle.loads(pickle.dumps(wrapped))
    assert again.columns == wrapped.columns


@pytest.mark.parametrize("each", FORMATS.values(), ids=lambda each: each.name)
def test_every_default_of_the_table_is_a_value_that_its_option_takes(each: Format) -> None:
    given = {option.name: option.default for option in each.options if option.default is not None}
    chosen = choose(each.name, given, inner=None, has_schema=True)
    assert chosen.values.flag("ignoreErrors") is False


@pytest.mark.parametrize(
    ("format", "schema", "inner", "options", "told", "hint"),
    [
        ("jsn", SCHEMA, None, {}, "decode = 'jsn' is not a format", "did you mean json?"),
        ("inlong-msg", SCHEMA, "cvs", {}, "decode.inner = 'cvs' is not a format", "did you mean csv?"),
        ("csv", SCHEMA, None, {"fieldDelimeter": "|"}, "csv has no option", "did you mean fieldDelimiter?"),
        ("csv", SCHEMA, None, {"fieldDelimiter": "||"}, "fieldDelimiter = '||' is not valid", "one character"),
        ("csv", SCHEMA, None, {"ignoreErrors": "yes"}, "ignoreErrors = 'yes' is not valid", "true or false"),
        ("csv", SCHEMA, None, {"quoteChar": ","}, "fieldDelimiter and quoteChar are both ','", "of its own"),
        ("csv", SCHEMA, None, {"charset": "utf-9"}, "charset = 'utf-9' is not valid", "charset"),
        ("csv", SCHEMA, None, {"charset": "zlib"}, "charset = 'zlib' is not valid", "charset"),
        ("csv", SCHEMA, None, {"charset": "gbk", "lineDelimiter": "|"}, "lineDelimiter = '|' cannot be found", "UTF-8"),
        ("csv", SCHEMA, None, {"charset": "utf-16", "lineDelimiter": "\\n"}, "cannot be found", "ASCII"),
        ("csv", SCHEMA, None, {"timeZone": "Mars"}, "timeZone = 'Mars' is not valid", "IANA"),
        ("csv", SCHEMA, None, {"timestampFormat": "unix"}, "timestampFormat = 'unix' is not valid", "seconds"),
        ("csv", None, None, {}, "csv needs the columns", "decode.schema"),
        ("csv", "tags ARRAY<INT>", None, {}, "csv has no fields of type array<int>", "json"),
        ("csv", SCHEMA, "json", {}, "decode.inner = 'json' has no meaning", "inlong-msg"),
        ("inlong-msg", SCHEMA, "inlong-msg", {}, "cannot be inside", "another format"),
        ("inlong-msg", SCHEMA, "csv", {"maxRecords": "0"}, "maxRecords = '0' is not valid", "at least 1"),
        ("inlong-msg", SCHEMA, "csv", {"decompress": "lz4"}, "decompress = 'lz4' is not valid", "gzip"),
        ("inlong-msg", "inlongmsg_time STRING", "csv", {}, "two decoded columns", "rename"),
        ("raw", SCHEMA, None, {}, "raw makes one column", "csv"),
        ("avro", None, None, {}, "needs the option avroSchema", "writer"),
        ("avro", None, None, {"avroSchema": "{"}, "is not an Avro schema", "record"),
        ("avro", "nme STRING", None, {"avroSchema": AVRO}, "column nme: the Avro schema has no such field", "id"),
        ("canal-json", SCHEMA, None, {"metadata": "_tabel"}, "metadata names '_tabel'", "did you mean _table?"),
        ("canal-json", SCHEMA, None, {"tableInclude": "("}, "is not a regular expression", "as in"),
        ("json", "_error STRING", None, {}, "a decoded column is called _error", "rejected"),
    ],
)
def test_what_is_wrong_is_named_with_the_remedy(
    format: str, schema: str | None, inner: str | None, options: dict[str, str], told: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        make_decoder(format, schema=schema, inner=inner, options=options)
    assert told in caught.value.message
    assert caught.value.hint is not None
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "fields",
    [
        '[{"name": "next", "type": ["null", "R"]}]',
        '[{"name": "many", "type": {"type": "array", "items": "null"}}]',
        '[{"name": "many", "type": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}}]',
    ],
)
def test_an_avro_schema_that_few_bytes_could_make_endless_is_refused(fields: str) -> None:
    with pytest.raises(ConfigError, match=r"of any size|no limit"):
        make_decoder("avro", options={"avroSchema": f'{{"type": "record", "name": "R", "fields": {fields}}}'})


def test_names_of_options_come_in_any_case() -> None:
    make_decoder("csv", schema=SCHEMA, options={"charset": "GB18030", "linedelimiter": "\\n"})
    make_decoder("csv", schema=SCHEMA, options={"FIELDDELIMITER": "\\t", "nullliteral": "NULL"})


@pytest.mark.process
def test_checking_a_file_loads_neither_spark_nor_arrow() -> None:
    code = (
        "import sys, pytubemq.decode.format_options, pytubemq.decode.columns\n"
        "assert not {'pyspark', 'pyarrow', 'fastavro'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.process
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_decoded_where_pyspark_is_not_installed(name: str) -> None:
    schema = {"raw": None, "avro": None, "inlong-msg": None}.get(name, SCHEMA)
    options = {"avroSchema": AVRO} if name == "avro" else {}
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "import pyarrow as pa\n"
        "from pytubemq.decode import make_decoder\n"
        f"decoder = make_decoder({name!r}, schema={schema!r}, options={options!r})\n"
        "attributes = pa.array([[('a', 'b')]], pa.map_(pa.string(), pa.string()))\n"
        "done = decoder.decode(pa.record_batch({'body': pa.array([b'?']), 'attributes': attributes}))\n"
        "assert len(done.rows) + len(done.rejected) == 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
