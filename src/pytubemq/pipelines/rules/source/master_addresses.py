"""Addresses of Masters: each is host:port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError, FormatError
from pytubemq.model.cluster_address import ClusterAddress
from pytubemq.model.ids import DEFAULT_MASTER_PORT, Address
from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE, sharper=Need.VALUES)
def check(context: Context) -> Faults:
    """Report what is no Master's address."""
    pipeline = context.pipeline
    named = {"source.master": pipeline.source.master}
    named |= {f"sinks[{index}].master": sink.master for index, sink in enumerate(pipeline.sinks)}
    if pipeline.dead_letter is not None:
        named["dead_letter.master"] = pipeline.dead_letter.master
    for path, text in named.items():
        known = context.known(text or "")
        if "?" in known or known.startswith("tls://"):
            yield from _with_options(context, known, path)
            continue
        for part in known.split(","):
            if part.strip() and "${" not in part:
                yield from _address(context, part.strip(), path)


def _with_options(context: Context, text: str, path: str) -> Faults:
    """Report what is wrong with an address over TLS, or with a user."""
    if "${" not in text:
        try:
            ClusterAddress.parse(text)
        except (ConfigError, FormatError) as error:
            yield context.fault(FaultCode.BAD_VALUE, path, error.message, error.hint)


def _address(context: Context, text: str, path: str) -> Faults:
    try:
        Address.parse(text, default_port=DEFAULT_MASTER_PORT)
    except FormatError as error:
        yield context.fault(FaultCode.BAD_VALUE, path, error.message, "write host:port, as 127.0.0.1:8715")
