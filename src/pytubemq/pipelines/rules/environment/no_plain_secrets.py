"""Secrets: none is in the file itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.secrets import holds_plain_secret
from pytubemq.pipelines.file.texts import texts_of
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report values that hold a secret."""
    for path, name, value in texts_of(context.pipeline):
        if holds_plain_secret(name, value):
            hint = "write ${env:NAME} or ${file:/path}"
            yield context.fault(FaultCode.PLAIN_SECRET, path, "a secret is in the file", hint)
