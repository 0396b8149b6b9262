"""What reads bytes or text of strangers where nobody has identified them yet, each as a function of bytes.

The invariant: a target returns for any bytes; it raises only where the code under it does not keep its word: an error
of a class that it does not announce, or a result that must not be.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

from pytubemq.core.refusal import Refused
from pytubemq.errors import ConfigError, EnvelopeError, FormatError, WireError
from pytubemq.master.access.accounts import Accounts
from pytubemq.master.access.authenticator import Authenticator
from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.master.catalogue.loading import sound_records
from pytubemq.model.limits import OIDC_LEEWAY_S
from pytubemq.model.records import PermissionRecord, UserRecord
from pytubemq.net.clock import SystemClock
from pytubemq.security.access_rules import AccessRules, UserRules, read_permissions
from pytubemq.security.client_token import ClientIdentity, issue_token, read_token
from pytubemq.security.oidc.issuer_keys import IssuerKeys, read_issuer_keys
from pytubemq.security.oidc.oidc_tokens import OidcTokenError, TokenRules, VerifiedToken, verify_token
from pytubemq.security.permissions import Operation, ResourceKind, is_allowed, parse_permission
from pytubemq.security.sealing import Sealer
from pytubemq.security.secret import Secret
from pytubemq.security.signature import sign
from pytubemq.security.token_keys import ClientKey, accepted_keys
from pytubemq.storage.metastore.port import Metadata
from pytubemq.wire.protocol.messages.master import BrokerAccess, MasterCertificateInfo
from pytubemq.wire.rpc.envelope import Request
from pytubemq.wire.rpc.methods import METHODS, method_for
from pytubemq.wire.rpc.stream import RequestStream
from pytubemq.wire.serialization.message_bytes import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = bytes(range(32))
NOW_S: Final = 1_700_000_000.0
SECRET: Final = Secret("a" * 43)
CLIENT_ID: Final = "c"
_SERVICES: Final = frozenset({1, 2, 3})


class StandingClock(SystemClock):
    """A clock at one moment, so that the corpus stays what it is."""

    def wall_ms(self) -> int:
        return int(NOW_S * 1000)


@cache
def _sealer() -> Sealer:
    return Sealer(ROOT, bytes)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def token(data: bytes) -> None:
    """A client's token: whatever is accepted is what a Master would have issued, to the character."""
    text = _text(data)
    identity = read_token(accepted_keys(ROOT, now_s=NOW_S), text, CLIENT_ID, now_s=NOW_S)
    if identity is not None:
        period, issued_s = map(int, text.split(".")[1:3])
        key = next(key for key in accepted_keys(ROOT, now_s=NOW_S) if key.period == period)
        assert issue_token(key, identity, CLIENT_ID, now_s=issued_s) == text


def certificate(data: bytes) -> None:
    """A request's certificate at a Master: who is let in has signed."""
    try:
        shown = decode(MasterCertificateInfo, data)
    except EnvelopeError:
        return
    catalogue = Catalogue(StandingClock())
    catalogue.users["ann"] = UserRecord("ann", sealed_secret=_sealer().seal("ann", SECRET))
    authenticator = Authenticator(Accounts(catalogue, _sealer()), ROOT, StandingClock())
    try:
        identity = authenticator.identify(shown, CLIENT_ID)
    except Refused:
        return
    if (info := shown.auth_info) is not None:
        assert info.signature == sign(identity.user, SECRET, timestamp_ms=info.timestamp, nonce=info.nonce)


def frames(data: bytes) -> None:
    """A stream of request frames: read in pieces it says what it says as a whole."""
    cut = data[0] % 64 if data else 0
    whole, parts = _requests([data[1:]]), _requests([data[1 : 1 + cut], data[1 + cut :]])
    assert whole == parts
    for request in whole[0]:
        with suppress(EnvelopeError):
            spec = method_for(request, offered=_SERVICES)
            message = decode(METHODS[spec.method].request, request.body)
            assert decode(METHODS[spec.method].request, encode(message)) == message


def _requests(pieces: list[bytes]) -> tuple[list[Request], str]:
    """The requests in a stream, and the class of the error at which it ends."""
    stream, found = RequestStream(), []
    try:
        for piece in pieces:
            for item in stream.feed_requests(piece):
                if isinstance(item, Request):
                    found.append(item)
    except WireError as error:
        return found, type(error).__name__
    return found, ""


def permission(data: bytes) -> None:
    """The words of a permission: what is accepted reads back, and allows what it names."""
    operation, _, rest = _text(data).partition(" ")
    kind, _, pattern = rest.partition(" ")
    try:
        granted = parse_permission(operation, kind, pattern)
    except FormatError:
        return
    assert read_permissions([str(granted)]) == (granted,)
    name = granted.pattern.removesuffix("*")
    assert granted.covers(granted.operation, granted.kind, name)
    assert not is_allowed([], granted.operation, granted.kind, name)
    is_admin = granted.operation is Operation.ADMIN and granted.kind is ResourceKind.CLUSTER
    assert is_admin or not is_allowed([granted], Operation.ADMIN, ResourceKind.CLUSTER, "cluster")


def records(data: bytes) -> None:
    """Users and permissions as they are on the disk: damaged ones let nobody in, and hinder no start."""
    fields = (*map(_text, data.split(b"\0")), "", "", "", "", "")[:5]
    user, sealed, operation, kind, pattern = fields
    metadata = Metadata(
        users=[UserRecord(user, sealed_secret=sealed)], permissions=[PermissionRecord(user, operation, kind, pattern)]
    )
    catalogue = Catalogue(StandingClock())
    for record in sound_records(metadata)[0]:
        if isinstance(record, UserRecord):
            catalogue.users[record.user] = record
        elif isinstance(record, PermissionRecord):
            catalogue.permissions.setdefault(record.user, {})[
                record.operation, record.resource_kind, record.pattern
            ] = record
    accounts = Accounts(catalogue, _sealer())
    accounts.permissions(user)
    with suppress(ConfigError):
        secret = accounts.secret(user)
        assert secret is None or _sealer().open(user, sealed) == secret


def rules(data: bytes) -> None:
    """Users, permissions and keys as a Broker gets them: who is in none of them is let in by none."""
    try:
        access = decode(BrokerAccess, data)
    except EnvelopeError:
        return
    found = AccessRules(
        access.version,
        access.enforced,
        tuple(ClientKey(key.period, key.value) for key in access.keys),
        {user.user: UserRules(user.epoch, read_permissions(user.permissions)) for user in access.users},
    )
    stranger = ClientIdentity("\0nobody", 1)
    assert not found.is_allowed(stranger, Operation.PRODUCE, ResourceKind.TOPIC, "t") or "\0nobody" in found.users
    for key in found.keys:
        if not any(key.value == other.value and key is not other for other in found.keys):
            shown = issue_token(ClientKey(key.period, key.value + b"x"), stranger, CLIENT_ID, now_s=NOW_S)
            assert found.identify(shown, CLIENT_ID, now_s=NOW_S) is None


def oidc_token(data: bytes) -> None:
    """An access token of an issuer, or a header and claims that it signs: who is let in is named by signed claims."""
    header, _, claims = data[1:].partition(b"\0")
    text = _text(data[1:]) if data[:1] == b"t" else signed_by_issuer(header, claims)
    try:
        shown = verify_token(text, _issuer_keys(), TokenRules("issuer", "tubemq"), now_s=NOW_S)
    except OidcTokenError as error:
        reason = error.reason
    else:
        _was_signed(text, shown)
        reason = ""
    assert not reason or reason.isprintable()
    assert len(reason) < 400


def _was_signed(text: str, shown: VerifiedToken) -> None:
    header, payload, signature = text.split(".")
    _issuer().public_key().verify(_from_base64(signature), f"{header}.{payload}".encode())
    claims = json.loads(_from_base64(payload))
    assert (claims["iss"], claims["sub"]) == ("issuer", shown.user)
    assert claims["aud"] == "tubemq" or "tubemq" in claims["aud"]
    assert shown.expires_s + OIDC_LEEWAY_S > NOW_S


def signed_by_issuer(header: bytes, payload: bytes) -> str:
    """The token with these two parts, whatever they are."""
    text = b".".join(urlsafe_b64encode(part).rstrip(b"=") for part in (header, payload))
    return f"{text.decode()}.{urlsafe_b64encode(_issuer().sign(text)).rstrip(b'=').decode()}"


@cache
def _issuer() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(ROOT)


@cache
def _issuer_keys() -> IssuerKeys:
    entry = json.loads(OKPAlgorithm.to_jwk(_issuer().public_key()))
    return read_issuer_keys(json.dumps({"keys": [{**entry, "kid": "k"}]}).encode(), "keys")


def _from_base64(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    one.__name__: one for one in (token, certificate, frames, permission, records, rules, oidc_token)
}
