"""The settings of TLS connections, made from files: the one place where contexts of the `ssl` module come from.

The invariants: TLS 1.2 is the least; only the CAs that are given count, never the system's; a client always checks the
server's name; a certificate that could not work (another's key, expired, for another use) is refused when it is loaded.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Never

from pytubemq.errors import ConfigError
from pytubemq.net.tls.alerts import AlertingContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytubemq.model.tls_options import TlsOptions

MAX_PEM_BYTES: Final = 1 << 20
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_KEY: Final = b"PRIVATE KEY-----"
_EXPIRED, _NOT_YET, _OTHER_USE = 10, 9, 26
_TRIAL_STEPS: Final = 10


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files of a server: its certificate, its key, and the CAs of the clients from which it demands one."""

    cert: str
    key: str
    client_ca: str | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(filter(None, (self.cert, self.key, self.client_ca)))


def server_context(files: ServerFiles) -> ssl.SSLContext:
    """Return a server's context; with `client_ca` each client must show a certificate for clients.

    Raises:
        ConfigError: a file cannot be used; says which one and why.
    """
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    _load_own(context, files.cert, files.key)
    if files.client_ca:
        context.verify_mode = ssl.CERT_REQUIRED
        _trust(context, files.client_ca)
    _try_out(files.cert, files.key, is_server=True)
    return context


def client_context(options: TlsOptions) -> ssl.SSLContext:
    """Return a client's context, which checks the certificate and the name of a server.

    Raises:
        ConfigError: a file cannot be used; says which one and why.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _harden(context)
    _trust(context, os.path.expanduser(options.ca))
    if options.cert is not None:
        cert = os.path.expanduser(options.cert)
        key = os.path.expanduser(options.key or cert)
        _load_own(context, cert, key)
        _try_out(cert, key, is_server=False)
    return context


def client_paths(options: TlsOptions) -> tuple[str, ...]:
    """Return the files of a client's context."""
    return tuple(os.path.expanduser(path) for path in (options.ca, options.cert, options.key) if path)


def certificate_expiry(cert: str, key: str) -> float | None:
    """Return when a server's certificate expires, in seconds since 1970; None for one that cannot be read."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        server.load_cert_chain(cert, key)
        client.load_verify_locations(cert)
        shown = _shake_hands(client, server)
    except (ssl.SSLError, OSError):
        return None
    text = (shown or {}).get("notAfter")
    return ssl.cert_time_to_seconds(text) if isinstance(text, str) else None


def certificate_name(certificate: object) -> str | None:
    """Return the name of a peer, given what `getpeercert` returns: its common name, else its first other name."""
    if not isinstance(certificate, dict):
        return None
    for parts in certificate.get("subject", ()):
        for kind, value in parts:
            if kind == "commonName":
                return str(value)
    return next((str(value) for _, value in certificate.get("subjectAltName", ())), None)


# --- inside -----------------------------------------------------------------------------------------------------------


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION


def _read(path: str, what: str, begins: bytes) -> None:
    """Refuse a file that cannot be read or is not PEM, which the `ssl` module reports without a name."""
    shown = f"the {what} {path}"
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_PEM_BYTES)
    except OSError as error:
        raise ConfigError(
            f"{shown} cannot be read: {error.strerror or error}", hint="check its path and its permissions"
        ) from error
    if begins not in content:
        wanted = "a private key" if begins is _KEY else "a certificate"
        raise ConfigError(
            f"{shown} is not a PEM file with {wanted}",
            hint=f"give a file with {wanted} between lines that begin with -----BEGIN and -----END "
            "(docs/how-to/tls.md shows how to convert others)",
        )


def _load_own(context: ssl.SSLContext, cert: str, key: str) -> None:
    _read(cert, "certificate", _CERTIFICATE)
    _read(key, "key", _KEY)
    is_locked = False

    def password() -> str:  # without it, OpenSSL would ask at the terminal
        nonlocal is_locked
        is_locked = True
        return ""

    try:
        context.load_cert_chain(cert, key, password)
    except (ssl.SSLError, OSError, ValueError) as error:
        if is_locked:
            raise ConfigError(
                f"the key {key} is encrypted with a password",
                hint="give one without, that only its user may read (mode 0600): openssl pkey -in FILE -out FILE",
            ) from error
        if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(
                f"the key {key} does not belong to the certificate {cert}",
                hint="give the key that the certificate was made with; the server's own certificate comes first in "
                "its file, then those between it and its CA",
            ) from error
        raise ConfigError(
            f"the certificate {cert} and the key {key} cannot be used: {_reason(error)}",
            hint="both must be whole PEM files",
        ) from error


def _trust(context: ssl.SSLContext, path: str, *, what: str = "CA certificate") -> None:
    _read(path, what, _CERTIFICATE)
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"the {what} {path} cannot be used: {_reason(error)}", hint="it must be a whole PEM file"
        ) from error


def _reason(error: BaseException) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    return str(reason).lower().replace("_", " ") if reason else str(error)


def _try_out(cert: str, key: str, *, is_server: bool) -> None:
    """Shake hands with ourselves, in memory, as a peer that trusts this very certificate.

    That finds what loading does not: it has expired, is not valid yet, or is for another use.
    """
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    # Read once more, and the files may have been replaced since: then they do not fit together now.
    _load_own(own, cert, key)
    peer = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if is_server else ssl.PROTOCOL_TLS_SERVER)
    peer.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _trust(peer, cert, what="certificate")
    client = peer if is_server else own
    client.check_hostname = False
    if is_server:
        peer.verify_mode = ssl.CERT_REQUIRED
    else:
        own.verify_mode = ssl.CERT_NONE
        peer.verify_mode = ssl.CERT_REQUIRED
        _load_own(peer, cert, key)
    try:
        _shake_hands(client, own if is_server else peer)
    except ssl.SSLCertVerificationError as error:
        _refuse(cert, error, is_server=is_server)
    except ssl.SSLError:
        return  # something that only a handshake with the real peer can show


def _shake_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> Mapping[str, object] | None:
    """Shake hands in memory; return what the client knows of the server's certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_side=False)
    ends = [asking, server.wrap_bio(to_server, to_client, server_side=True)]
    for _ in range(_TRIAL_STEPS):
        for end in tuple(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            ends.remove(end)
        if not ends:
            return asking.getpeercert()
    return None


def _refuse(cert: str, error: ssl.SSLCertVerificationError, *, is_server: bool) -> Never:
    side, usage = ("server", "serverAuth") if is_server else ("client", "clientAuth")
    if error.verify_code == _EXPIRED:
        raise ConfigError(f"the certificate {cert} has expired", hint="make a new one") from error
    if error.verify_code == _NOT_YET:
        raise ConfigError(f"the certificate {cert} is not valid yet", hint="check this machine's clock") from error
    if error.verify_code == _OTHER_USE:
        raise ConfigError(
            f"the certificate {cert} is for another use than that of a {side}",
            hint=f"make one whose extended key usage has {usage}",
        ) from error
    raise ConfigError(
        f"the certificate {cert} cannot be used: {error.verify_message}", hint="make a new one"
    ) from error


def stamps_of(paths: tuple[str, ...]) -> tuple[object, ...]:
    """Return what changes when one of these files is replaced or written; a missing file has a stamp, too."""
    found: list[object] = []
    for path in paths:
        try:
            status = os.stat(path)
        except OSError as error:
            found.append(error.errno)
        else:
            found.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)
