"""A session with ZooKeeper.

The invariants: every call ends within its limit; a session on which a call got no response is given up, so that what
still waits in it is not sent later; every error is one of ours, without the password. Calls block.

Nothing depends on the life of a session: there are no ephemeral nodes, so the next call may open another one.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from kazoo import exceptions as refusals
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import make_digest_acl

from pytubemq.errors import (
    ConfigError,
    DatabaseTimeoutError,
    DatabaseUnreachableError,
    StorageError,
    TubeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytubemq.core.database.zookeeper_options import ZooKeeperOptions

_SESSION_S: Final = 10.0
"""The session timeout that is requested: the server ends a session that is silent for this long."""
_LOST: Final = (
    refusals.ConnectionLoss,
    refusals.ConnectionClosedError,
    refusals.SessionExpiredError,
    refusals.OperationTimeoutError,
    refusals.SessionMovedError,
    refusals.CancelledError,
    OSError,
)
_quiet = logging.getLogger(f"{__name__}.kazoo")
_quiet.setLevel(logging.CRITICAL)
"""Each failure is an error of ours, which the caller logs once."""


class ZooKeeperSession:
    """A session that is opened when it is needed, and again after it broke; for one thread at a time.

    Args:
        options: the servers and the node.
    """

    def __init__(self, options: ZooKeeperOptions) -> None:
        self._options = options
        self._client: Any = None
        self._lock = threading.Lock()
        self._closed = False

    def open(self, limit_s: float) -> None:
        """Open a session if there is none. Raises as `call`, and ConfigError where a user has no password."""
        if self._client is not None:
            if self._client.connected:
                return
            self.drop()
        client = _client(self._options)
        with self._lock:
            if self._closed:
                raise self._unreachable("the session was closed")
            self._client = client
        live = client.start_async()
        if not live.wait(limit_s):
            self.drop()
            raise self._unreachable(f"no server responded in {limit_s:.1f} s")

    def call(
        self, begin: Callable[[Any], Any], *, limit_s: float, connect_s: float | None = None, accepts: Any = ()
    ) -> Any:
        """Begin an operation on the client and return its result, or an error whose class is in `accepts`.

        `limit_s` is the time for everything, or, with `connect_s` for the connection, for the operation alone.

        Raises:
            DatabaseUnreachableError, DatabaseTimeoutError: no response came; the operation may have taken effect.
            TubeError: it was refused, and had no effect.
        """
        end_s = time.monotonic() + limit_s
        self.open(limit_s if connect_s is None else connect_s)
        if connect_s is not None:
            end_s = time.monotonic() + limit_s
        client = self._client
        if client is None:
            raise self._unreachable("the session was closed")
        try:
            return begin(client).get(timeout=max(0.0, end_s - time.monotonic()))
        except KazooTimeoutError:
            self.drop()
            raise DatabaseTimeoutError(
                f"{self._options.place} is too slow: no response in {limit_s:.1f} s",
                hint="try again; if it stays so, check the load of the ZooKeeper servers and their disks",
            ) from None
        except _LOST as error:
            self.drop()
            raise self._unreachable(type(error).__name__) from None
        except refusals.KazooException as error:
            if isinstance(error, accepts):
                return error
            raise refusal(self._options, error) from None

    def multi(self, operations: Callable[[Any], None], *, limit_s: float, connect_s: float | None = None) -> list[Any]:
        """Run several changes as one transaction; return the results, or, if it had no effect, also the refusals.

        Raises as `call`, also where the servers refuse this user.
        """

        def begin(client: Any) -> Any:
            transaction = client.transaction()
            operations(transaction)
            return transaction.commit_async()

        found: list[Any] = self.call(begin, limit_s=limit_s, connect_s=connect_s)
        for result in found:
            if isinstance(result, (refusals.NoAuthError, refusals.InvalidACLError)):
                raise refusal(self._options, result)
        return found

    def drop(self) -> None:
        """Give the session up without waiting for the server. Idempotent."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            # kazoo waits for its threads, the longer the less the server responds.
            threading.Thread(target=_end, args=(client,), name="end of a ZooKeeper session", daemon=True).start()

    def close(self) -> None:
        """Drop the session, and open no other one. Idempotent."""
        with self._lock:
            self._closed = True
        self.drop()

    def _unreachable(self, reason: str) -> DatabaseUnreachableError:
        return DatabaseUnreachableError(
            f"{self._options.place} cannot be used now: {reason}",
            hint="check that most of the ZooKeeper servers run and can be reached, and their addresses in the URL",
        )


def failed(results: Sequence[Any]) -> tuple[int, Exception] | None:
    """Return which operation of a transaction was refused, and with what; None if it took effect."""
    for index, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(
            result, (refusals.RolledBackError, refusals.RuntimeInconsistency)
        ):
            return index, result
    return None


def refusal(options: ZooKeeperOptions, error: Exception) -> TubeError:
    """Return our error for an operation that ZooKeeper refused."""
    if isinstance(error, (refusals.NoAuthError, refusals.InvalidACLError, refusals.AuthFailedError)):
        return ConfigError(
            f"{options.place} belongs to another user, or the password is wrong",
            hint="check the user in the URL and the password; another PATH in the URL gets nodes of its own",
        )
    return StorageError(f"{options.place} refuses: {type(error).__name__}", hint="see the log of ZooKeeper")


def _client(options: ZooKeeperOptions) -> Any:
    user, password = options.user, options.password
    if bool(user) != (password is not None):
        raise ConfigError(
            f"{options.place} has {'a user without a password' if user else 'a password and no user'}",
            hint="give both: the user in the URL, the password in the file of `store_password_file` or in the variable "
            "PYTUBEMQ_STORE_PASSWORD; or neither, where only Masters reach the servers",
        )
    more: dict[str, Any] = {}
    if user:
        more["auth_data"] = [("digest", f"{user}:{password}")]
        more["default_acl"] = [make_digest_acl(user, password, all=True)]
    if tls := options.tls():
        more.update(use_ssl=True, verify_certs=True, check_hostname=True, ca=tls["tls_ca"])
        more.update(certfile=tls.get("tls_cert"), keyfile=tls.get("tls_key"))
    # It retries without end, at any of the servers: our caller's limit ends that.
    return KazooClient(hosts=options.hosts, timeout=_SESSION_S, logger=_quiet, **more)


def _end(client: Any) -> None:
    with contextlib.suppress(Exception):
        client.stop()
    with contextlib.suppress(Exception):
        client.close()
