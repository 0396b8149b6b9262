"""Tasks that sign their requests with the user's secret, as the driver does: where it has no client token for them.

A Java Master issues no such tokens. The invariant: what the driver sends to tasks has the path of the secret's file and
never the secret, so each executor reads a file of its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark import TaskContext

from pytubemq.client.client_credentials import find_credentials, read_credentials
from pytubemq.errors import ConfigError
from pytubemq.spark.cluster_option import SECRET_FILE

if TYPE_CHECKING:
    from pytubemq.client.partition_state import Known
    from pytubemq.model.cluster_address import ClusterAddress


def signs_itself(masters: ClusterAddress, known: Known | None) -> bool:
    """Return True if this process has no client token from the driver, but a user whose secret it can read."""
    if _has_token(known):
        return False
    try:
        return find_credentials(None, masters.user, os.environ) is not None
    except ConfigError:
        return False  # where it is needed, the cluster refuses who does not sign


def check_own_secret(masters: ClusterAddress, known: Known | None) -> None:
    """Check that a task that signs itself can read the file that the options name; do nothing on the driver.

    Raises:
        ConfigError: it cannot; the text says that the file is needed on the executor, and why.
    """
    if masters.user is None or _has_token(known) or TaskContext.get() is None:
        return
    try:
        read_credentials(masters.user)
    except ConfigError as error:
        raise ConfigError(
            f"{error.message}; this executor needs it, as the Master issues no client tokens (a Java Master does not)",
            hint=f"put the file that {SECRET_FILE} names at the same path on each executor, with mode 0600",
        ) from error


def _has_token(known: Known | None) -> bool:
    return known is not None and bool(known.client_token)
