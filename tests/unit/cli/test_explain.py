"""Every code is explained, and every explanation can be asked for."""

from __future__ import annotations

from pytubemq.cli.explain import explanations, local_errors
from pytubemq.cli.failures import class_code, describe
from pytubemq.errors import Code, DirectoryLockedError, UnreachableError, refused


def test_every_code_and_every_local_error_is_explained() -> None:
    known = explanations()
    for code in Code:
        assert known[str(int(code))].name == code.name
    for kind in local_errors():
        assert known[class_code(kind)].remedy
    assert all(entry.meaning and entry.remedy for entry in known.values())


def test_refusals_of_users_lead_to_their_permissions_and_secrets() -> None:
    known = explanations()
    for code in (Code.UNAUTHORIZED, Code.FORBIDDEN, Code.CONSUME_GROUP_FORBIDDEN):
        assert "permission" in known[str(int(code))].remedy, code
    assert "--secret-file" in known["415"].remedy


def test_what_is_shown_can_be_looked_up() -> None:
    for error in (UnreachableError("x"), DirectoryLockedError("x"), refused(410, "x")):
        assert str(describe(error)["code"]) in explanations()
