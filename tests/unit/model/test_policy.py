"""How long messages are kept: our grammar, and the original's reading of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytubemq.errors import BadRequestError
from pytubemq.model.policy import (
    DEFAULT_RETENTION,
    MAX_AGE_S,
    RetentionPolicy,
    check_delete_policy,
    original_form,
    parse_delete_policy,
    policy_of_retention,
    retention_of_policy,
    understood_policy,
)

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "normal", "policy"),
    [
        ("delete,72h", "delete,72h", RetentionPolicy(72 * 3600.0, None)),
        ("delete,72", "delete,72h", RetentionPolicy(72 * 3600.0, None)),
        (" DELETE , 90M ", "delete,90m", RetentionPolicy(5400.0, None)),
        ("delete,3600s", "delete,3600s", RetentionPolicy(3600.0, None)),
        ("delete,30d", "delete,720h", RetentionPolicy(720 * 3600.0, None)),
        ("delete,72h,10GB", "delete,72h,10GB", RetentionPolicy(72 * 3600.0, 10 * GIB)),
        ("delete,10gb,72h", "delete,72h,10GB", RetentionPolicy(72 * 3600.0, 10 * GIB)),
        ("delete,10GB", "delete,10GB", RetentionPolicy(None, 10 * GIB)),
        ("delete,2048MB", "delete,2GB", RetentionPolicy(None, 2 * GIB)),
        ("delete,1536KB", "delete,1536KB", RetentionPolicy(None, 1536 * 1024)),
        ("keep", "keep", RetentionPolicy(None, None)),
    ],
)
def test_a_policy_has_an_age_a_size_or_both(text: str, normal: str, policy: RetentionPolicy) -> None:
    assert check_delete_policy(text) == normal
    assert parse_delete_policy(text) == parse_delete_policy(normal) == policy


@pytest.mark.parametrize(
    "text",
    ["", "delete", "delete,", "delete,0h", "delete,0GB", "delete,-1h", "delete,1.5h", "delete,1w", "keep,72h",
     "delete,,10GB", "delete,72h,72h", "delete,1GB,2GB", "delete,72h,1GB,1GB", "drop,72h", "delete,3651d",
     "delete,1025TB", "delete,99999999999999999h", "delete,٣h"],
)  # fmt: skip
def test_what_is_no_policy_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(BadRequestError, match="not a delete policy") as error:
        parse_delete_policy(text)
    assert "delete,72h,10GB" in (error.value.hint or "")


@pytest.mark.parametrize("text", ["delete,169h", "delete,8d", "delete,604801s", "delete,169h,1GB"])
def test_where_the_original_is_spoken_no_age_is_longer_than_168_hours(text: str) -> None:
    with pytest.raises(BadRequestError, match="not a delete policy") as error:
        check_delete_policy(text, longest_age_s=MAX_AGE_S)
    assert "at most 168 hours" in (error.value.hint or "")
    assert check_delete_policy("delete,168", longest_age_s=MAX_AGE_S) == "delete,168h"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("delete,72h", "delete,72h"),
        ("delete,72h,10GB", "delete,72h"),
        ("delete,30d", "delete,720h"),
        ("delete,10GB", "delete,87600h"),
        ("keep", "delete,87600h"),
    ],
)
def test_a_broker_of_the_original_is_told_an_age_only(text: str, told: str) -> None:
    assert original_form(text) == told
    assert understood_policy(told).age_s == parse_delete_policy(told).age_s


@pytest.mark.parametrize(
    ("text", "age_s"),
    [("delete,2h", 7200.0), ("whatever,30m", 1800.0), ("delete,5s", 5.0), ("delete,7", 25_200.0)],
)
def test_the_age_of_a_java_master_is_understood(text: str, age_s: float) -> None:
    assert understood_policy(text) == RetentionPolicy(age_s, None)


@pytest.mark.parametrize(
    "text", ["", "delete", "delete,", "delete,x", "delete,72h,10GB", "keep", "delete,0", "delete,-3h"]
)
def test_what_a_broker_does_not_understand_is_kept_for_168_hours_as_in_the_original(text: str) -> None:
    assert understood_policy(text) == DEFAULT_RETENTION == parse_delete_policy("delete,168h")


@pytest.mark.parametrize(
    ("given", "policy"),
    [("72h", "delete,72h"), ("10GB", "delete,10GB"), ("72h, 10gb", "delete,72h,10GB"), ("forever", "keep"),
     ("keep", "keep"), ("delete,90m", "delete,90m")],
)  # fmt: skip
def test_a_retention_is_a_policy_without_its_first_word(given: str, policy: str) -> None:
    assert policy_of_retention(given) == policy
    assert policy_of_retention(retention_of_policy(policy)) == policy


@pytest.mark.parametrize("text", ["5", " 168 ", "5,10GB", "10GB,5"])
def test_a_retention_without_a_unit_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError, match="not a retention: ") as caught:
        policy_of_retention(text)
    assert "write a unit: " in str(caught.value.hint)
    assert parse_delete_policy("delete,5").age_s == 5 * 3600  # as the original has it


def test_a_retention_that_is_none_is_named() -> None:
    with pytest.raises(BadRequestError, match="not a retention: 'sometimes'"):
        policy_of_retention("sometimes")


@given(
    st.one_of(st.none(), st.tuples(st.integers(1, 3650), st.sampled_from("smhd"))),
    st.one_of(st.none(), st.tuples(st.integers(1, 1024), st.sampled_from(["KB", "MB", "GB", "TB"]))),
)
def test_the_normal_form_says_the_same(age: tuple[int, str] | None, size: tuple[int, str] | None) -> None:
    limits = [f"{number}{unit}" for number, unit in filter(None, (age, size))]
    text = ",".join(["delete", *limits]) if limits else "keep"
    normal = check_delete_policy(text)
    assert parse_delete_policy(normal) == parse_delete_policy(text)
    assert check_delete_policy(normal) == normal
    assert policy_of_retention(retention_of_policy(normal)) == normal
