"""Permissions: what was granted and nothing else; a row for each method of the protocol."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import FormatError
from pytubemq.security.permissions import (
    ALLOWED_OPERATIONS,
    CLUSTER_NAME,
    Operation,
    Permission,
    ResourceKind,
    is_allowed,
    parse_permission,
)
from pytubemq.security.rpc_permissions import RPC_PERMISSIONS, Subject
from pytubemq.wire.rpc.methods import Method

TOPIC, GROUP, CLUSTER = ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER
ALL = [(operation, kind) for kind, operations in ALLOWED_OPERATIONS.items() for operation in operations]


@pytest.mark.parametrize(("operation", "kind"), ALL)
def test_without_a_grant_everything_is_refused(operation: Operation, kind: ResourceKind) -> None:
    assert not is_allowed([], operation, kind, CLUSTER_NAME)


# by operation on a topic: all operations on that topic that it includes
INCLUDED = {
    Operation.PRODUCE: {Operation.PRODUCE, Operation.DESCRIBE},
    Operation.CONSUME: {Operation.CONSUME, Operation.DESCRIBE},
    Operation.DESCRIBE: {Operation.DESCRIBE},
    Operation.ADMIN: {Operation.PRODUCE, Operation.CONSUME, Operation.DESCRIBE, Operation.ADMIN},
}


@pytest.mark.parametrize(("granted", "asked"), [*itertools.product(INCLUDED, ALLOWED_OPERATIONS[TOPIC])])
def test_an_operation_on_a_topic_includes_what_it_needs(granted: Operation, asked: Operation) -> None:
    grants = [Permission(granted, TOPIC, "orders")]
    assert is_allowed(grants, asked, TOPIC, "orders") == (asked in INCLUDED[granted])
    assert not is_allowed(grants, asked, TOPIC, "payments")
    if asked in ALLOWED_OPERATIONS[GROUP]:
        assert not is_allowed(grants, asked, GROUP, "orders")


FROM_CLUSTER = {
    Operation.ADMIN: {*ALLOWED_OPERATIONS[TOPIC]},
    Operation.OPERATE: {Operation.ADMIN, Operation.DESCRIBE},
    Operation.DESCRIBE: {Operation.DESCRIBE},
    Operation.BROKER: set(),
}


@pytest.mark.parametrize(("granted", "asked"), [*itertools.product(FROM_CLUSTER, ALLOWED_OPERATIONS[TOPIC])])
def test_a_permission_on_the_cluster_covers_its_topics_and_groups(granted: Operation, asked: Operation) -> None:
    grants = [Permission(granted, CLUSTER, "*")]
    assert is_allowed(grants, asked, TOPIC, "any") == (asked in FROM_CLUSTER[granted])
    if asked in ALLOWED_OPERATIONS[GROUP]:
        assert is_allowed(grants, asked, GROUP, "any") == (asked in FROM_CLUSTER[granted])


def test_only_its_own_grant_lets_a_broker_in_and_an_operator_changes_no_users() -> None:
    for granted in ALLOWED_OPERATIONS[CLUSTER] - {Operation.BROKER}:
        assert not is_allowed([Permission(granted, CLUSTER, "*")], Operation.BROKER, CLUSTER, CLUSTER_NAME)
    assert not is_allowed([Permission(Operation.OPERATE, CLUSTER, "*")], Operation.ADMIN, CLUSTER, CLUSTER_NAME)
    assert is_allowed([Permission(Operation.ADMIN, CLUSTER, "*")], Operation.OPERATE, CLUSTER, CLUSTER_NAME)


names = st.text(st.characters(exclude_characters="*", exclude_categories=["C", "Z"]), min_size=1, max_size=20)


@given(names, names)
def test_patterns_are_names_and_prefixes(pattern: str, name: str) -> None:
    def covers(text: str) -> bool:
        return is_allowed([parse_permission("produce", "topic", text)], Operation.PRODUCE, TOPIC, name)

    assert covers(pattern) == (pattern == name)
    assert covers(pattern + "*") == name.startswith(pattern)
    assert covers("*")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("write", "topic", "a"), "no operation on a topic"),
        (("produce", "group", "a"), "no operation on a group"),
        (("broker", "topic", "a"), "no operation on a topic"),
        (("produce", "queue", "a"), "no kind of resource"),
        (("produce", "topic", ""), "no pattern"),
        (("produce", "topic", "a*b"), "no pattern"),
        (("produce", "topic", "**"), "no pattern"),
        (("produce", "topic", "a\nb"), "no pattern"),
        (("produce", "topic", "a" * 2000), "no pattern"),
        (("admin", "cluster", "mine"), "no cluster"),
    ],
)
def test_what_is_no_permission_is_refused_by_name(words: tuple[str, str, str], expected: str) -> None:
    with pytest.raises(FormatError, match=expected):
        parse_permission(*words)


def test_each_method_of_the_protocol_has_a_row() -> None:
    assert set(RPC_PERMISSIONS) == set(Method)
    for method, needs in RPC_PERMISSIONS.items():
        assert needs, method
        for need in needs:
            assert (need.operation is None) == (need.subject is Subject.ITS_OWN) == (need.kind is None)
            if need.kind is not None:
                assert need.operation in ALLOWED_OPERATIONS[need.kind]
