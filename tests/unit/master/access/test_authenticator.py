"""Identification of callers: what is forged, replayed, stale or another's is refused, and what it says of why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytubemq.errors import Code
from pytubemq.master.access.authenticator import _WRONG as WRONG
from pytubemq.master.access.authenticator import Unidentified
from pytubemq.model.records import UserRecord
from pytubemq.security.client_token import ClientIdentity
from pytubemq.security.replay_window import WINDOW_MS
from tests.unit.master.access.place import SECRETS, Place

if TYPE_CHECKING:
    from pathlib import Path

    from pytubemq.wire.protocol.messages.master import AuthenticateInfo

pytestmark = pytest.mark.anyio


def reason(place: Place, info: AuthenticateInfo | None, token: str = "", client_id: str = "c") -> tuple[str, str]:
    """What the caller is told, and what the log is."""
    with pytest.raises(Unidentified) as refused:
        place.identify(info, token, client_id)
    assert refused.value.refusal.code == Code.CERTIFICATE_FAILURE
    return refused.value.refusal.text, refused.value.reason


async def test_a_signature_identifies_its_user_once() -> None:
    place = Place()
    info = place.signed()
    assert place.identify(info) == ClientIdentity("ann", 1)
    assert "used before" in reason(place, info)[0]
    assert place.identify(place.signed(nonce=2)) == ClientIdentity("ann", 1)


async def test_a_signature_that_was_used_before_a_restart_is_refused_after_it(tmp_path: Path) -> None:
    killed, place = Place(), Place()
    killed.authenticator.open(tmp_path)
    used, fresh, late = killed.signed(), killed.signed(nonce=2), killed.signed(nonce=3, shift_ms=-WINDOW_MS)
    assert killed.identify(used) == ClientIdentity("ann", 1)
    place.clock.time_s += 1.0
    place.authenticator.open(tmp_path)
    assert "sign each request anew" in reason(place, used)[0]
    assert place.identify(fresh) == ClientIdentity("ann", 1), "one from before the start that was not used is honest"
    assert "behind the Master's clock" in reason(place, late)[0]
    place.authenticator.close()
    assert place.identify(place.signed(nonce=4)) == ClientIdentity("ann", 1)


async def test_a_directory_that_cannot_be_written_is_logged_and_hinders_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place()
    (tmp_path / "file").touch()
    place.authenticator.open(tmp_path / "file")
    assert "used signatures cannot be kept in" in caplog.text
    assert place.identify(place.signed()) == ClientIdentity("ann", 1)
    assert "used before" in reason(place, place.signed())[0]


async def test_each_fault_is_told_to_whom_it_may_be_told() -> None:
    place = Place()
    right = place.signed()
    assert "not signed" in reason(place, replace(right, signature=" "))[0]
    assert "not signed" in reason(place, replace(right, user_name=""))[0]
    told, logged = reason(place, replace(right, user_name="nobody"))
    assert (told, "no user 'nobody'" in logged) == (WRONG, True)
    told, logged = reason(place, replace(right, signature="x"))
    assert (told, "a wrong signature of 'ann'" in logged) == (WRONG, True)
    assert "21 s ahead of the Master's clock" in reason(place, place.signed(shift_ms=WINDOW_MS + 1_000))[0]
    assert "21 s behind the Master's clock" in reason(place, place.signed(shift_ms=-WINDOW_MS - 1_000))[0]
    assert "requires authentication" in reason(place, None)[0]


async def test_a_user_that_is_disabled_or_has_no_secret_is_refused() -> None:
    place = Place()
    for changed in ({"user_enabled": False}, {"sealed_secret": ""}, {"sealed_secret": "1:damaged"}):
        place.catalogue.users["ann"] = replace(
            UserRecord("ann", sealed_secret=place.sealer.seal("ann", SECRETS["ann"])), **changed
        )
        assert reason(place, place.signed())[0] == WRONG


async def test_a_token_is_good_for_its_client_until_its_user_gets_another_secret() -> None:
    place = Place()
    token = place.authenticator.issue(place.identify(place.signed()), "c")
    assert place.identify(None, token) == ClientIdentity("ann", 1)
    assert "not valid" in reason(place, None, token, client_id="another")[0]
    place.catalogue.users["ann"] = replace(place.catalogue.users["ann"], secret_epoch=2)
    assert "another secret" in reason(place, None, token)[1]
