"""The origin of a request, this site or another one, and the cookie of a session.

The invariant: a change with a cookie needs proof that it comes from a page of this server; that there is no proof of
the opposite is not enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

COOKIE: Final = "pytubemq-session"
SECURE_COOKIE: Final = "__Host-pytubemq-session"
"""The name over HTTPS: a browser takes it from this host alone, over HTTPS alone, for all paths."""
_OWN_SITE: Final = frozenset({"same-origin", "none"})


def is_cross_site(headers: Mapping[str, str]) -> bool:
    """True if a page of another site makes the request, by the browser's headers; programs send none."""
    site = headers.get("sec-fetch-site", "").strip().lower()
    if site and site not in _OWN_SITE:
        return True
    host = headers.get("host", "").strip().lower()
    for name in ("origin", "referer"):
        source = headers.get(name, "").strip()
        if source and _host(source) != host:
            return True
    return False


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """True if the browser says that a page of this server makes the request, and nothing says the opposite."""
    proven = headers.get("sec-fetch-site", "").strip().lower() == "same-origin" or bool(
        headers.get("origin", "").strip()
    )
    return proven and not is_cross_site(headers)


def is_json(headers: Mapping[str, str]) -> bool:
    """True if the body is JSON by its header, which no form of a page can send."""
    return headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def session_token(request: Request) -> str:
    """Return the token in the cookie of a session; blank if there is none."""
    return request.cookies.get(_name(request), "")


def set_session(request: Request, response: Response, token: str, *, longest_s: float) -> None:
    """Set the cookie of a session, for no other site and no script."""
    response.set_cookie(
        _name(request), token, max_age=int(longest_s), path="/", secure=_is_https(request), httponly=True,
        samesite="strict",
    )  # fmt: skip


def clear_session(request: Request, response: Response) -> None:
    """Remove the cookie of a session."""
    response.delete_cookie(_name(request), path="/", secure=_is_https(request), httponly=True, samesite="strict")


def _is_https(request: Request) -> bool:
    return request.url.scheme == "https"


def _name(request: Request) -> str:
    return SECURE_COOKIE if _is_https(request) else COOKIE


def _host(source: str) -> str:
    try:
        return urlsplit(source).netloc.lower()
    except ValueError:
        return ""
