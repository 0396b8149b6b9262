"""Which visit token a client gets."""

from __future__ import annotations

from pytubemq.master.access.sessions import Sessions
from pytubemq.master.access.tokens import AccessTokens
from pytubemq.security.access_rules import AccessRules, UserRules
from pytubemq.security.client_token import ClientIdentity
from pytubemq.security.token_keys import accepted_keys, visit_tokens
from tests.unit.master.access.place import ROOT, Place

ANN = ClientIdentity("ann", 1)
KEY = ("consumer", "c1")


class Tokens:
    """Tokens of a Master at which one consumer has registered."""

    def __init__(self, *, shared: bool = False) -> None:
        self.place = Place()
        sessions = Sessions()
        sessions.record(KEY, ANN)
        self.tokens = AccessTokens(self.place.authenticator, sessions, ROOT, self.place.clock)
        self.tokens.shares_visit_token = lambda: shared
        self.now_s = self.place.clock.wall_ms() / 1000

    def visit_token(self, key: tuple[str, str] = KEY, *, alone: bool = True) -> int:
        return self.tokens.of_client(key, shows_visit_token_alone=alone).visit_authorized_token

    @property
    def of_all(self) -> int:
        return visit_tokens(ROOT, now_s=self.now_s)[0]


def test_a_java_consumer_gets_a_visit_token_that_identifies_its_user() -> None:
    tokens = Tokens()
    rules = AccessRules(1, enforced=True, keys=accepted_keys(ROOT, now_s=tokens.now_s), users={"ann": UserRules(1)})
    assert rules.identify_visitor(tokens.visit_token(), "c1", now_s=tokens.now_s) == ANN


def test_any_other_client_gets_the_one_of_all() -> None:
    tokens = Tokens()
    assert tokens.visit_token(alone=False) == tokens.of_all
    assert tokens.visit_token(("consumer", "unregistered")) == tokens.of_all
    assert tokens.visit_token(("producer", "c1")) == tokens.of_all


def test_everybody_gets_the_one_of_all_while_a_java_broker_is_registered() -> None:
    tokens = Tokens(shared=True)
    assert tokens.visit_token() == tokens.of_all
