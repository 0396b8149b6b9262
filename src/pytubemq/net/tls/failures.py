"""The words for a TLS connection that did not come about, alike for both sides.

The invariant: a certificate that is expired, names somebody else, comes from an unknown CA or is for another use is
said to be just that, and so is a port at which TLS and plain bytes met.
"""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Final

from pytubemq.errors import TlsError, UnreachableError

if TYPE_CHECKING:
    from pytubemq.model.ids import Address

_VERIFY: Final = {
    9: "its certificate is not valid yet",
    10: "its certificate has expired",
    18: "its certificate is signed by itself, and by no CA that is known here",
    19: "its certificate is signed by an unknown CA",
    20: "its certificate is signed by an unknown CA",
    21: "its certificate is signed by an unknown CA",
    26: "its certificate is for another use (a server's must be for servers, a client's for clients)",
    62: "its certificate names another host",
    64: "its certificate names another address",
}
"""By OpenSSL's codes of verification (X509_V_ERR_...)."""

_ALERTS: Final = {
    "CERTIFICATE_EXPIRED": "it says that our certificate has expired",
    "UNKNOWN_CA": "it does not know the CA of our certificate",
    "UNSUPPORTED_CERTIFICATE": "it says that our certificate is for another use",
    "CERTIFICATE_REQUIRED": "it demands a certificate, and we have none that it accepts",
    "BAD_CERTIFICATE": "it refuses our certificate",
    "CERTIFICATE_UNKNOWN": "it refuses our certificate",
    "CERTIFICATE_REVOKED": "it says that our certificate is revoked",
    "ACCESS_DENIED": "it refuses our certificate",
    "HANDSHAKE_FAILURE": "it refuses the handshake: it may demand a certificate, or another version of TLS",
    "PROTOCOL_VERSION": "it speaks no version of TLS that we do (1.2 and later)",
    "UNEXPECTED_MESSAGE": "it does not speak TLS at this port",
}
"""By the ends of the reasons that OpenSSL gives for alerts: SSLV3_ALERT_..., TLSV1_ALERT_..., TLSV13_ALERT_..."""

_NO_TLS: Final = frozenset(
    ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG")
)
"""Reasons that OpenSSL gives for bytes that are not TLS."""

REPAIR: Final = {
    "expired": "make a new certificate, as with `pytubemq cert make` for a trial, and put it in the place of the old "
    "one; it is loaded without a restart",
    "not valid yet": "compare the clocks of both machines",
    "names another": "connect by a name in the certificate, or give that name as server_name",
    "CA": "give the file of the CA that signed it as ca",
    "another use": "make the certificate for its use: serverAuth for a server, clientAuth for a client",
    "demand": "give this client's certificate and key as cert and key",
    "refuses our certificate": "give a certificate that a CA of the server has signed",
}
"""The remedy by a part of the reason."""


def failure_reason(error: BaseException) -> str:
    """Return what went wrong in a handshake, or in the connection after it, as seen from this side."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFY.get(error.verify_code, f"its certificate is refused: {error.verify_message}")
    if not isinstance(error, ssl.SSLError):
        return "it closed the connection during the TLS handshake"
    reason = error.reason or ""
    if reason in _NO_TLS:
        return "it does not speak TLS at this port"
    if alert := re.search(r"ALERT_(\w+)", reason):
        return _ALERTS.get(alert[1], f"it ended the handshake: {alert[1].lower().replace('_', ' ')}")
    if reason in ("NO_SHARED_CIPHER", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"):
        return "it speaks no version of TLS or no cipher that we do (1.2 and later)"
    if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return "it has shown no certificate, which is demanded here"
    return f"TLS failed: {(reason or str(error.strerror or error)).lower().replace('_', ' ')}"


def is_tls_failure(error: BaseException) -> bool:
    """True if TLS itself says what went wrong, and not only that the connection ended."""
    return isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def no_connection(peer: Address, error: BaseException) -> TlsError:
    """Return the error of a client whose connection to `peer` did not come about, with its remedy."""
    reason = failure_reason(error)
    hint = next((remedy for part, remedy in REPAIR.items() if part in reason), None)
    if "speak TLS" in reason or hint is None:
        hint = _other_port(peer)
    return TlsError(f"no TLS connection to {peer}: {reason}", hint=hint)


def no_handshake(peer: Address, reason: str) -> UnreachableError:
    """Return the error of a client whose peer ended the handshake, or did not begin it, without saying why."""
    return UnreachableError(f"no TLS connection to {peer}: {reason}", hint=_other_port(peer))


def _other_port(peer: Address) -> str:
    return f"is {peer} the TLS port (8716 of a Master, 8124 of a Broker, unless they were set otherwise)?"
