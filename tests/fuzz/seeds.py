"""The first inputs of each target's corpus: what honest peers send. `python -m tests.fuzz.seeds` writes them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from pytubemq.security.client_token import ClientIdentity, issue_token
from pytubemq.security.signature import sign
from pytubemq.security.token_keys import CLIENT_KEY_PERIOD_S, accepted_keys, client_key
from pytubemq.wire.protocol.messages.master import (
    AccessKey,
    AccessUser,
    AuthenticateInfo,
    BrokerAccess,
    MasterCertificateInfo,
)
from pytubemq.wire.rpc.envelope import encode_request
from pytubemq.wire.serialization.message_bytes import encode
from tests.fuzz.corpus import DIRECTORY
from tests.fuzz.targets import CLIENT_ID, NOW_S, ROOT, SECRET, _sealer, signed_by_issuer
from tests.support.rpc_requests import REQUESTS, Asked, service_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield each target with an input."""
    tokens = [
        issue_token(client_key(ROOT, now_s=at_s), ClientIdentity(user, 1), CLIENT_ID, now_s=at_s)
        for at_s in (NOW_S, NOW_S - CLIENT_KEY_PERIOD_S)
        for user in ("ann", "")
    ]
    for text in tokens:
        yield "token", text.encode()
        yield "certificate", encode(MasterCertificateInfo(authorized_token=text))
    for nonce in (0, 2**31 - 2):
        timestamp_ms = int(NOW_S * 1000) + nonce % 7
        info = AuthenticateInfo(
            user_name="ann",
            timestamp=timestamp_ms,
            nonce=nonce,
            oth_params="",
            signature=sign("ann", SECRET, timestamp_ms=timestamp_ms, nonce=nonce),
        )
        yield "certificate", encode(MasterCertificateInfo(auth_info=info))
    for serial, (method, request) in enumerate(REQUESTS.items()):
        parts = encode_request(
            serial, service=service_of(method), method=method, timeout_ms=1_000, body=[encode(request(Asked()))]
        )
        yield "frames", b"\x07" + b"".join(parts)
    for words in (
        "produce topic orders",
        "consume group *",
        "describe topic ord*",
        "admin cluster *",
        "broker cluster *",
    ):
        yield "permission", words.encode()
        yield "records", b"\0".join([b"ann", _sealer().seal("ann", SECRET).encode(), *words.encode().split()])
    keys = tuple(AccessKey(period=key.period, value=key.value) for key in accepted_keys(ROOT, now_s=NOW_S))
    users = (AccessUser(user="ann", epoch=1, permissions=("produce topic *",)), AccessUser(user="bob", epoch=2))
    for some in (keys, keys[:1], ()):
        yield "rules", encode(BrokerAccess(version=7, enforced=True, keys=some, users=users))
    header = b'{"alg":"EdDSA","kid":"k","typ":"JWT"}'
    for claims in (
        b'{"iss":"issuer","aud":"tubemq","sub":"ann","iat":1700000000,"exp":1700000300}',
        b'{"iss":"issuer","aud":["x","tubemq"],"sub":"ann","nbf":1700000000.5,"exp":1.7000003e9}',
    ):
        yield "oidc_token", b"s" + header + b"\0" + claims
        yield "oidc_token", b"t" + signed_by_issuer(header, claims).encode()


def main() -> None:
    """Write the seeds, each under the hash of its content."""
    for target, data in seeds():
        directory = DIRECTORY / target
        directory.mkdir(parents=True, exist_ok=True)
        (directory / hashlib.sha1(data).hexdigest()).write_bytes(data)


if __name__ == "__main__":
    main()
