"""Identification of callers: what is forged, replayed, stale or another's is refused, and what it says of why."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pytest

from pytubemq.errors import Code
from pytubemq.master.access.accounts import Accounts
from pytubemq.master.access.authenticator import Authenticator, Unidentified
from pytubemq.master.catalogue.catalogue import Catalogue
from pytubemq.model.records import UserRecord
from pytubemq.security.client_token import ClientIdentity
from pytubemq.security.replay_window import WINDOW_MS
from pytubemq.security.sealing import Sealer
from pytubemq.security.secret import Secret
from pytubemq.security.signature import sign
from pytubemq.wire.protocol.messages.master import AuthenticateInfo, MasterCertificateInfo
from tests.unit.master.groups.room import StandingClock

pytestmark = pytest.mark.anyio
ROOT = bytes(range(32))
SECRETS = {"ann": Secret("a" * 43), "bob": Secret("b" * 43)}


class Place:
    """An authenticator with two users."""

    def __init__(self) -> None:
        self.clock = StandingClock()
        self.catalogue = Catalogue(self.clock)
        self.sealer = Sealer(ROOT, os.urandom)
        for name, secret in SECRETS.items():
            self.catalogue.users[name] = UserRecord(name, sealed_secret=self.sealer.seal(name, secret))
        self.authenticator = Authenticator(Accounts(self.catalogue, self.sealer), ROOT, self.clock)

    def signed(self, user: str = "ann", nonce: int = 1, shift_ms: int = 0) -> AuthenticateInfo:
        timestamp_ms = self.clock.wall_ms() + shift_ms
        return AuthenticateInfo(
            user_name=user,
            timestamp=timestamp_ms,
            nonce=nonce,
            oth_params="",
            signature=sign(user, SECRETS.get(user, Secret("?")), timestamp_ms=timestamp_ms, nonce=nonce),
        )

    def identify(self, info: AuthenticateInfo | None, token: str = "", client_id: str = "c") -> ClientIdentity:
        certificate = MasterCertificateInfo(auth_info=info, authorized_token=token)
        return self.authenticator.identify(certificate, client_id)

    def reason(self, info: AuthenticateInfo | None, token: str = "", client_id: str = "c") -> tuple[str, str]:
        """What the caller is told, and what the log is."""
        with pytest.raises(Unidentified) as refused:
            self.identify(info, token, client_id)
        assert refused.value.refusal.code == Code.CERTIFICATE_FAILURE
        return refused.value.refusal.text, refused.value.reason


async def test_a_signature_identifies_its_user_once() -> None:
    place = Place()
    info = place.signed()
    assert place.identify(info) == ClientIdentity("ann", 1)
    assert "used before" in place.reason(info)[0]
    assert place.identify(place.signed(nonce=2)) == ClientIdentity("ann", 1)


async def test_each_fault_is_told_to_whom_it_may_be_told() -> None:
    place = Place()
    right = place.signed()
    assert "not signed" in place.reason(replace(right, signature=" "))[0]
    assert "not signed" in place.reason(replace(right, user_name=""))[0]
    told, logged = place.reason(replace(right, user_name="nobody"))
    assert (told, "no user 'nobody'" in logged) == ("the user or its secret is wrong", True)
    told, logged = place.reason(replace(right, signature="x"))
    assert (told, "a wrong signature of 'ann'" in logged) == ("the user or its secret is wrong", True)
    assert "21 s ahead of the Master's clock" in place.reason(place.signed(shift_ms=WINDOW_MS + 1_000))[0]
    assert "21 s behind the Master's clock" in place.reason(place.signed(shift_ms=-WINDOW_MS - 1_000))[0]
    assert "requires authentication" in place.reason(None)[0]


async def test_no_altered_signature_is_accepted() -> None:
    place, rng = Place(), random.Random(7)
    for number in range(2_000):
        right = place.signed(nonce=number)
        chars = list(right.signature)
        at = rng.randrange(len(chars))
        chars[at] = rng.choice([char for char in "ABCxyz019%+/" if char != chars[at]])
        altered = [
            replace(right, signature="".join(chars)),
            replace(right, user_name="bob"),
            replace(right, timestamp=right.timestamp + rng.choice([-1, 1, 500])),
            replace(right, nonce=right.nonce + 1),
            replace(right, signature=place.signed("bob", number).signature),
        ]
        for info in altered:
            place.reason(info)


async def test_a_user_that_is_disabled_or_has_no_secret_is_refused() -> None:
    place = Place()
    for changed in ({"user_enabled": False}, {"sealed_secret": ""}, {"sealed_secret": "1:damaged"}):
        place.catalogue.users["ann"] = replace(
            UserRecord("ann", sealed_secret=place.sealer.seal("ann", SECRETS["ann"])), **changed
        )
        assert place.reason(place.signed())[0] == "the user or its secret is wrong"


async def test_a_token_is_good_for_its_client_until_its_user_gets_another_secret() -> None:
    place = Place()
    token = place.authenticator.issue(place.identify(place.signed()), "c")
    assert place.identify(None, token) == ClientIdentity("ann", 1)
    assert "not valid" in place.reason(None, token, client_id="another")[0]
    place.catalogue.users["ann"] = replace(place.catalogue.users["ann"], secret_epoch=2)
    assert "another secret" in place.reason(None, token)[1]
