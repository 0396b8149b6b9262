"""Settings of Spark: none that is known to hang a run or to double its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.pipelines.rules.rule import Context, Faults


class Refused(NamedTuple):
    """A value that a setting must not have."""

    value: str
    why: str
    hint: str


REFUSED: Final = {
    "spark.sql.execution.arrow.compression.codec": Refused(
        "lz4", "with Spark's Java LZ4 a Python writer hangs for minutes", "delete it, or use zstd"
    ),
    "spark.speculation": Refused(
        "true", "a task may be run twice at the same time, and write twice", "delete it, it is off by default"
    ),
}  # fmt: skip


@rule(Need.FILE, sharper=Need.VALUES)
def check(context: Context) -> Faults:
    """Report refused settings of the file; a session is checked before it is used, whoever made it."""
    conf = {name: context.known(value) for name, value in context.pipeline.spark.conf.items()}
    for name, refused in _refused(conf).items():
        text = f"{conf[name]} is refused: {refused.why}"
        yield context.fault(FaultCode.SPARK_SETTING_REFUSED, f"spark.conf.{name}", text, refused.hint)


def check_settings(conf: Mapping[str, str]) -> None:
    """Refuse the settings of a session.

    Raises:
        ConfigError: naming the setting and the reason.
    """
    for name, refused in _refused(conf).items():
        raise ConfigError(f"{name} = {conf[name]} is refused: {refused.why}", hint=refused.hint)


def _refused(conf: Mapping[str, str]) -> dict[str, Refused]:
    return {
        name: refused for name, refused in REFUSED.items() if conf.get(name, "").strip().lower() == refused.value
    }  # fmt: skip
