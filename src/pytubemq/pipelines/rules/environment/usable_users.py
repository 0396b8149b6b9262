"""Users of clusters: each has a secret file, and where clusters may be reached, one that can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.file.model import DeadLetter, Sink, Source
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE, sharper=Need.VALUES | Need.CLUSTER)
def check(context: Context) -> Faults:
    """Report a user without a secret file, the other way round, and files that cannot be used."""
    pipeline = context.pipeline
    named: dict[str, Source | Sink | DeadLetter] = {"source": pipeline.source}
    named |= {f"sinks[{index}]": sink for index, sink in enumerate(pipeline.sinks)}
    if pipeline.dead_letter is not None:
        named["dead_letter"] = pipeline.dead_letter
    for path, spec in named.items():
        for one, other, given, missing in (
            ("user", "secret_file", spec.user, spec.secret_file),
            ("secret_file", "user", spec.secret_file, spec.user),
        ):
            if given and not missing:
                text = f"has no meaning without {other}"
                yield context.fault(FaultCode.CONTRADICTION, f"{path}.{one}", text, f"add {other}", at_key=True)
        if spec.user and spec.secret_file and Need.VALUES | Need.CLUSTER in context.sees:
            yield from _file(context, f"{path}.secret_file", spec.secret_file)


def _file(context: Context, path: str, text: str) -> Faults:
    from pytubemq.client.client_credentials import read_secret_file  # not for lint

    name = context.text(text)
    if name is None:
        return  # the reference is reported by another rule
    try:
        read_secret_file(name)
    except ConfigError as error:
        yield context.fault(FaultCode.BAD_VALUE, path, error.message, error.hint)
