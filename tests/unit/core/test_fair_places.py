"""Places that hosts and their connections share."""

from __future__ import annotations

from pytubemq.core.fair_places import FairPlaces


def filled(*origins: tuple[str, int | None]) -> FairPlaces[int, int | None]:
    """Return places that keys 0, 1, … entered, all idle."""
    places: FairPlaces[int, int | None] = FairPlaces()
    for key, origin in enumerate(origins):
        places.enter(key, origin, is_idle=True)
    return places


def test_nobody_makes_room_where_nobody_is() -> None:
    assert filled().displaced_by(("a", 1)) is None
    assert filled().largest_host() == ("", 0)


def test_the_largest_host_makes_room_until_shares_are_alike() -> None:
    places = filled(("a", 1), ("a", 1), ("a", 2), ("b", 1))
    assert places.largest_host() == ("a", 3)
    assert places.displaced_by(("b", 1)) == 1, "the newest of the connection with most"
    places.leave(1, ("a", 1))
    assert places.displaced_by(("b", 1)) is None


def test_connections_without_a_token_share_like_others() -> None:
    places = filled(("a", None), ("a", None), ("a", 2))
    assert places.displaced_by(("a", 3)) == 1
    assert places.displaced_by(("a", 2)) is None


def test_one_that_is_used_goes_after_those_that_are_not() -> None:
    places = filled(("a", 1), ("a", 1), ("a", 1))
    places.record_use(2, ("a", 1))
    assert places.displaced_by(("b", 1)) == 1
    for key in (0, 1):
        places.record_use(key, ("a", 1))
    assert places.displaced_by(("b", 1)) == 2, "where all are used, the newest"


def test_nothing_is_remembered_of_those_that_left() -> None:
    origins = (("a", 1), ("a", None), ("b", 2))
    places = filled(*origins)
    for key, origin in enumerate(origins):
        places.leave(key, origin)
    assert not any((places._connections, places._all, places._idle))
    assert len(places._hosts) == 0
