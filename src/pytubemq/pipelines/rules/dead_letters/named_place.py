"""Place of the dead letters: the file says it, as they are else kept beside the state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.pipelines.file.faults import FaultCode
from pytubemq.pipelines.file.keys import DECODE
from pytubemq.pipelines.file.model import DEAD_LETTER, OnError
from pytubemq.pipelines.rules.rule import Need, rule

if TYPE_CHECKING:
    from pytubemq.pipelines.rules.rule import Context, Faults


@rule(Need.FILE)
def check(context: Context) -> Faults:
    """Report a file that rejects records and does not say where they go."""
    pipeline, by_path = context.pipeline, context.places.by_path
    decode, said = pipeline.decode, "decode.on_error" in by_path
    if pipeline.dead_letter is not None or decode is None or decode.on_error is not OnError.DEAD_LETTER:
        return
    if decode.format == "raw" and not said:
        return
    keys = {path.split(".")[1] for path in by_path if path.startswith("decode.")}
    if any(DECODE.key(key) is None for key in keys):
        return  # perhaps it is said, with a mistake that is reported as such
    text = "dead_letter" if said else "records that cannot be decoded become dead letters"
    hint = f"they are stored as Parquet in {pipeline.state_or_default}/{DEAD_LETTER}"
    key = "decode.on_error" if said else "decode"
    text += ", and the file has no section dead_letter"
    yield context.fault(FaultCode.DEFAULT_DEAD_LETTER, key, text, hint, at_key=not said)
