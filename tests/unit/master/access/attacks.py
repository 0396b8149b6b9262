"""Attacks on the identification of callers: forged, replayed, stale and swapped signatures and tokens."""

from __future__ import annotations

import string
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus

from pytubemq.broker.members.caller_access import CallerAccess
from pytubemq.core.refusal import Refused
from pytubemq.security.access_rules import AccessRules, UserRules
from pytubemq.security.client_token import TOKEN_LIFE_S, ClientIdentity, issue_token
from pytubemq.security.replay_window import WINDOW_MS
from pytubemq.security.signature import MAX_NONCE
from pytubemq.security.token_keys import CLIENT_KEY_PERIOD_S, accepted_keys, client_key, visit_tokens
from pytubemq.wire.protocol.messages.broker import AuthorizedInfo
from tests.unit.master.access.place import ROOT, Place

if TYPE_CHECKING:
    import random

    from pytubemq.wire.protocol.messages.master import AuthenticateInfo

START_S: Final = 1_700_000_000.0
OTHERS_ROOT: Final = bytes(range(1, 33))
BATCH: Final = 100
"""Attacks that share one genuine signature and one genuine token."""
_SIGNATURE_CHARS: Final = string.ascii_letters + string.digits + "%+/="
_TOKEN_CHARS: Final = string.ascii_letters + string.digits + "-_."


@dataclass
class Attacker:
    """Somebody who has seen genuine requests of a user and tries variations of them."""

    rng: random.Random
    place: Place = field(default_factory=Place)
    tried: int = 0
    accepted: list[str] = field(default_factory=list)
    """What was accepted although it was forged: none, if all is well."""

    def __post_init__(self) -> None:
        self.place.clock.time_s = START_S
        self._nonce = 0

    def attack(self, count: int) -> None:
        """Try at least so many attacks."""
        while self.tried < count:
            self._batch()
            self.place.clock.time_s += 0.05

    def _batch(self) -> None:
        self._nonce += 1
        right, token = self.place.signed(nonce=self._nonce), self._token()
        spare = self.place.signed("bob", self._nonce)
        for _ in range(BATCH // 8):
            self._at_master("forged", self._forged(right))
            self._at_master("swapped", self._swapped(right, spare))
            self._at_master("stale", self._stale())
            self._with_token("token", *self._altered(token))
        # The controls: what is genuine is accepted, once.
        assert self.place.identify(right).user == "ann"
        assert self.place.identify(None, token, "c").user == "ann"
        assert self._broker().identify(self._shown(token), "c", now_s=0.0, wall_s=self._now_s()).identity is not None
        for _ in range(BATCH // 8):
            self._at_master("replayed", right, client_id=f"c{self.rng.randrange(1_000)}")
            self._at_master("replayed with a token", right, token=token)
            self._with_token("passed on", token, f"d{self.rng.randrange(1_000)}")
            self._with_visit_token(token)

    # --- signatures -----------------------------------------------------------------------------------------

    def _forged(self, right: AuthenticateInfo) -> AuthenticateInfo:
        rng, genuine = self.rng, right.signature
        at = rng.randrange(len(genuine))
        texts = (
            genuine[:at] + self._other(genuine[at], _SIGNATURE_CHARS) + genuine[at + 1 :],
            genuine[:at] + genuine[at + 1 :],
            genuine + rng.choice(_SIGNATURE_CHARS),
            genuine.swapcase(),
            genuine.replace("%3D", "="),
            quote_plus(genuine),
            "".join(rng.choices(_SIGNATURE_CHARS, k=28)),
        )
        return replace(right, signature=rng.choice([text for text in texts if text != genuine]))

    def _swapped(self, right: AuthenticateInfo, of_bob: AuthenticateInfo) -> AuthenticateInfo:
        digits = str(right.timestamp)
        changes: tuple[dict[str, object], ...] = (
            {"user_name": "bob"},
            {"user_name": "Ann"},
            {"timestamp": right.timestamp + self.rng.choice((-1, 1, 1_000, -1_000))},
            {"nonce": self.rng.randrange(self._nonce + 1, MAX_NONCE)},
            {"signature": of_bob.signature},
            # The signed text stays the same where a digit goes from one number to the next.
            {"timestamp": int(digits[:-1]), "nonce": int(digits[-1] + str(right.nonce))},
            {"user_name": "ann1", "timestamp": int(digits[1:])},
        )
        return replace(right, **self.rng.choice(changes))  # type: ignore[arg-type]

    def _stale(self) -> AuthenticateInfo:
        off_ms = WINDOW_MS + self.rng.randint(1, 10**9)
        return self.place.signed(nonce=self.rng.randrange(MAX_NONCE), shift_ms=self.rng.choice((-off_ms, off_ms)))

    # --- tokens ---------------------------------------------------------------------------------------------

    def _now_s(self) -> float:
        return self.place.clock.wall_ms() / 1000

    def _token(self, *, root: bytes = ROOT, earlier_s: float = 0.0) -> str:
        now_s = self._now_s() - earlier_s
        return issue_token(client_key(root, now_s=now_s), ClientIdentity("ann", 1), "c", now_s=now_s)

    def _altered(self, token: str) -> tuple[str, str]:
        """Return an invalid token, with the client id to send it with."""
        rng = self.rng
        at = rng.randrange(len(token))
        version, period, issued, epoch, user, mac = token.split(".")
        return rng.choice(
            (
                token[:at] + self._other(token[at], _TOKEN_CHARS) + token[at + 1 :],
                token[:at] + token[at + 1 :],
                token + rng.choice(_TOKEN_CHARS),
                ".".join((version, period, issued, str(int(epoch) + 1), user, mac)),
                ".".join((version, period, str(int(issued) + 1), epoch, user, mac)),
                ".".join((version, str(int(period) - 1), issued, epoch, user, mac)),
                ".".join((version, period, issued, epoch, "Ym9i", mac)),
                self._token(root=OTHERS_ROOT),
                self._token(earlier_s=rng.uniform(TOKEN_LIFE_S + 1, 3 * CLIENT_KEY_PERIOD_S)),
            )
        ), "c"

    def _other(self, char: str, chars: str) -> str:
        return self.rng.choice([one for one in chars if one != char])

    # --- the doors ------------------------------------------------------------------------------------------

    def _at_master(self, kind: str, info: AuthenticateInfo, *, token: str = "", client_id: str = "c") -> None:
        self.tried += 1
        try:
            identity = self.place.identify(info, token, client_id)
        except Refused:
            return
        self.accepted.append(f"{kind} as {identity.user}: {info}")

    def _with_token(self, kind: str, token: str, client_id: str) -> None:
        self.tried += 2
        try:
            identity = self.place.identify(None, token, client_id)
            self.accepted.append(f"{kind} at the Master as {identity.user}: {token}")
        except Refused:
            pass
        self._at_broker(kind, self._shown(token), client_id)

    def _with_visit_token(self, token: str) -> None:
        self.tried += 1
        wrong = self.rng.randrange(1 << 63)
        self._at_broker(
            "another visit token", AuthorizedInfo(visit_authorized_token=wrong, auth_authorized_token=token), "c"
        )

    def _at_broker(self, kind: str, shown: AuthorizedInfo, client_id: str) -> None:
        try:
            found = self._broker().identify(shown, client_id, now_s=0.0, wall_s=self._now_s())
        except Refused:
            return
        self.accepted.append(f"{kind} at a Broker as {found.identity}: {shown}")

    def _shown(self, token: str) -> AuthorizedInfo:
        valid, _ = visit_tokens(ROOT, now_s=self._now_s())
        return AuthorizedInfo(visit_authorized_token=valid, auth_authorized_token=token)

    def _broker(self) -> CallerAccess:
        """A Broker with the rules as they are now."""
        now_s = self._now_s()
        period = int(now_s // CLIENT_KEY_PERIOD_S)
        if period != getattr(self, "_period", None):
            self._period = period
            rules = AccessRules(1, enforced=True, keys=accepted_keys(ROOT, now_s=now_s), users={"ann": UserRules(1)})
            self._access = CallerAccess(rules=rules, required=True)
        self._access.visit_tokens.learn("{},{}".format(*visit_tokens(ROOT, now_s=now_s)))
        return self._access
