"""The errors that writes of the journal ended with: what is kept of them, and the refusal that a caller gets.

The invariant: an error that leaves it unknown what the disk contains is kept until a restart; one that passes is kept
until a write succeeds.
"""

from __future__ import annotations

import logging

from pytubemq.core.refusal import Refusal
from pytubemq.errors import Code, DiskFailedError, DiskFullError, OutOfResourcesError, TubeError, one_line

logger = logging.getLogger(__name__)


class WriteErrors:
    """The errors that stand against further writes, and the newest fault of this program beside them."""

    def __init__(self) -> None:
        self.fatal: BaseException | None = None
        """Set for good when it is unknown what the disk contains, or by a fault in this program."""
        self.fault: Exception | None = None
        """The newest fault in this program that cost a caller its response while writes go on; kept until a restart."""
        self._fault_text, self._fault_count = "", 0
        self.full: DiskFullError | None = None
        """Set from a write that failed for want of space until one succeeds, or is known to (`clear_passing`)."""
        self.unopened: OutOfResourcesError | None = None
        """Set in the same way, by a write whose file could not be opened."""
        self.refused_bytes = 0
        """The size of the largest write that failed since, for one of these two reasons."""

    def record(self, error: BaseException) -> Refusal:
        """Keep and log the error of a failed write; return the refusal for its callers."""
        if isinstance(error, DiskFullError):
            # Logged once for the whole time in which it is full, not for each write that fails meanwhile.
            if self.full is None:
                logger.error("the disk is full, sends are refused until there is space: %s", one_line(error))
            self.full = error
            return Refusal(
                Code.SERVER_RECEIVE_OVERFLOW,
                f"the Broker's disk is full: {error.message}; retry when there is space",
            )
        if isinstance(error, OutOfResourcesError):
            if self.unopened is None:
                logger.error("sends are refused until the journal's next file can be opened: %s", one_line(error))
            self.unopened = error
            return Refusal(Code.SERVICE_UNAVAILABLE, f"this Broker cannot write now: {error.message}; retry later")
        # A traceback helps with faults in this program, not with those of a disk.
        expected = isinstance(error, TubeError)
        logger.error(
            "the journal cannot be written, sends are refused until a restart: %s",
            error,
            exc_info=None if expected else error,
        )
        return self._keep_fatal(error)

    def record_stop(self, error: Exception) -> Refusal:
        """Keep and log a fault in this program after which nothing is written; return the refusal for all callers."""
        logger.error("writing has stopped, no message is accepted: %s", one_line(error), exc_info=error)
        return self._keep_fatal(error)

    def record_fault(self, fault: Exception, what: str) -> None:
        """Log a fault in this program; a repeated one only the 10th, the 100th, … time, and without a traceback."""
        self.fault = fault
        # The same fault may come with every request, which must not fill the log.
        text = f"{what}: {type(fault).__name__}: {fault}"
        if text != self._fault_text:
            self._fault_text, self._fault_count = text, 0
        self._fault_count += 1
        if self._fault_count == 1:
            logger.error("%s: %s", what, fault, exc_info=fault)
        elif str(self._fault_count).strip("0") == "1":
            logger.error("%s, for the %dth time: %s", what, self._fault_count, fault)

    def record_missed_callback(self, fault: Exception) -> None:
        """Log a fault that a submission raised when it was completed or refused."""
        self.record_fault(fault, "a caller could not be notified of the outcome of its write")

    def clear_passing(self) -> None:
        """Forget the errors that pass, since their reason is gone."""
        if self.full is not None or self.unopened is not None:
            logger.info("the journal can be written again")
        self.full = self.unopened = None
        self.refused_bytes = 0

    def _keep_fatal(self, error: BaseException) -> Refusal:
        self.fatal = error
        return fatal_refusal(error)


def fatal_refusal(error: BaseException) -> Refusal:
    """Return the refusal for callers while nothing can be written until a restart."""
    what = error.message if isinstance(error, TubeError) else f"{type(error).__name__}: {error}"
    code = Code.SERVICE_UNAVAILABLE if isinstance(error, DiskFailedError) else Code.INTERNAL_SERVER_ERROR
    return Refusal(code, f"this Broker can write no more and must be restarted: {what}")
