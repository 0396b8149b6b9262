"""The rules that a Broker has from its Master."""

from __future__ import annotations

from pytubemq.security.access_rules import MASTER, AccessRules, UserRules, read_permissions
from pytubemq.security.client_token import ClientIdentity, issue_token
from pytubemq.security.permissions import Operation, ResourceKind
from pytubemq.security.token_keys import accepted_keys, client_key

ROOT = bytes(32)
NOW = 1_700_000_000.0
TOPIC = ResourceKind.TOPIC
RULES = AccessRules(
    1, True, accepted_keys(ROOT, now_s=NOW), {"ann": UserRules(2, read_permissions(["produce topic orders*"]))}
)


def token(identity: ClientIdentity) -> str:
    return issue_token(client_key(ROOT, now_s=NOW), identity, "c", now_s=NOW)


def test_a_user_counts_with_the_epoch_of_its_secret_alone() -> None:
    ann = ClientIdentity("ann", 2)
    assert RULES.identify(token(ann), "c", now_s=NOW) == ann
    for other in (ClientIdentity("ann", 1), ClientIdentity("ann", 3), ClientIdentity("bob", 2)):
        assert RULES.identify(token(other), "c", now_s=NOW) is None
    assert RULES.identify(token(ann), "another client", now_s=NOW) is None
    assert AccessRules().identify(token(ann), "c", now_s=NOW) is None


def test_what_was_granted_is_allowed_and_nothing_else() -> None:
    ann = ClientIdentity("ann", 2)
    assert RULES.is_allowed(ann, Operation.PRODUCE, TOPIC, "orders_eu")
    assert not RULES.is_allowed(ann, Operation.CONSUME, TOPIC, "orders_eu")
    assert not RULES.is_allowed(ClientIdentity("bob", 2), Operation.PRODUCE, TOPIC, "orders_eu")


def test_the_master_may_do_everything_and_no_user_is_called_like_it() -> None:
    assert RULES.identify(token(MASTER), "c", now_s=NOW) == MASTER
    assert RULES.is_allowed(MASTER, Operation.ADMIN, ResourceKind.GROUP, "g")
    assert RULES.identify(token(ClientIdentity("", 1)), "c", now_s=NOW) is None


def test_a_permission_that_cannot_be_read_allows_nothing() -> None:
    texts = ["", "fly topic a", "produce", "produce topic", "produce planet a", "produce topic a*b", "produce topic a"]
    assert [str(one) for one in read_permissions(texts)] == ["produce topic a"]
