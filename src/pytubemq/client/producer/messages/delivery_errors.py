"""Errors of messages that were not delivered.

The invariant: an error says whether a Broker may have the message all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytubemq.errors import (
    Code,
    RefusedError,
    RemoteError,
    RequestTimeoutError,
    TransportError,
    TubeError,
    refused,
)

if TYPE_CHECKING:
    from pytubemq.client.producer.messages.record_batch import RecordBatch


def final_error(batch: RecordBatch, cause: BaseException | None) -> TubeError:
    """Return the error that a batch ends with: of the cause's kind, with the number of tries and whether it may be
    stored."""
    # Refused at the first try: the Broker's own words say everything.
    if isinstance(cause, RefusedError) and batch.tries <= 1:
        return cause
    tries = f"{batch.tries} tries" if batch.tries else "without being sent"
    text = cause.message if isinstance(cause, TubeError) else "no response came in time"
    message = f"not delivered to {batch.partition} ({tries}): {text}"
    if batch.uncertain:
        message += "; it was sent and its outcome is unknown: the Broker may have it"
    hint = cause.hint if isinstance(cause, TubeError) else None
    error: TubeError
    if isinstance(cause, RefusedError):
        error = refused(cause.code or Code.UNSPECIFIED_ABNORMAL, message, hint=hint)
    elif isinstance(cause, TransportError):
        # The same class, so that callers catch it as they would catch the cause.
        error = type(cause)(message, hint=hint)
    elif cause is None:
        error = RequestTimeoutError(message)
    else:
        error = TubeError(message, hint=hint)
    error.__cause__ = cause
    return error


def is_uncertain(error: TubeError) -> bool:
    """True if the Broker may have accepted what was sent in spite of this error."""
    return error.at_work if isinstance(error, RemoteError) else not isinstance(error, RefusedError)


def unexpected_error(error: BaseException) -> TubeError:
    """Wrap an unexpected exception, so that no future is left without a result."""
    found = TubeError(f"sending failed: {type(error).__name__}: {error}")
    found.__cause__ = error
    return found
