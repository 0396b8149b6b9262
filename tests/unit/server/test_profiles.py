"""Profiles: written whole, read back, refused when they are not what we write."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytubemq.errors import ConfigError
from pytubemq.server.profiles import (
    Profile,
    Profiles,
    profiles_path,
    read_profiles,
    remove_profile,
    restore_profiles,
    save_profile,
    use_profile,
)

DEV = Profile("dev", "127.0.0.1:8715", "http://127.0.0.1:8080", '/a "quoted" dir/ü')


def test_the_path_follows_xdg() -> None:
    assert profiles_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/pytubemq/profiles.toml")
    assert profiles_path({"HOME": "/h"}) == Path("/h/.config/pytubemq/profiles.toml")


def test_none_yet(tmp_path: Path) -> None:
    assert not read_profiles(tmp_path / "none.toml").by_name


def test_saved_ones_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "profiles.toml"
    other = Profile("prod.eu", "m1:8715,m2:8715", "http://m1:8080")
    save_profile(DEV, path=path)
    save_profile(other, path=path, make_current=False)
    found = read_profiles(path)
    assert found.current == "dev"
    assert dict(found.by_name) == {"dev": DEV, "prod.eu": other}
    assert [entry.name for entry in path.parent.iterdir()] == ["profiles.toml"]


def test_use_changes_the_current_one(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    save_profile(DEV, path=path)
    save_profile(Profile("b", "x:1", "http://x:2"), path=path)
    assert read_profiles(path).current == "b"
    use_profile("dev", path=path)
    assert read_profiles(path).current == "dev"
    with pytest.raises(ConfigError) as caught:
        use_profile("deev", path=path)
    assert caught.value.hint == "did you mean 'dev'?"


@pytest.mark.parametrize("text", ["= no toml", "[profiles.x]\nmaster = 'a'\n", "profiles = 3\n"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profiles.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"profiles\.toml"):
        read_profiles(path)


def test_what_was_written_for_a_while_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    mine = Profile("dev", "m:1", "http://m:2")
    save_profile(mine, path=path)
    before = read_profiles(path)
    ours = Profile("dev", "x:1", "http://x:2", "/data")
    save_profile(ours, path=path)
    restore_profiles(ours, before, path=path)
    assert read_profiles(path) == Profiles("dev", {"dev": mine})
    # what somebody has changed since stays
    restore_profiles(ours, Profiles(), path=path)
    assert read_profiles(path).by_name == {"dev": mine}
    other = Profile("dev-2", "y:1", "http://y:2", "/more")
    save_profile(other, path=path)
    restore_profiles(other, Profiles("dev-2", {"dev-2": other}), path=path)
    assert read_profiles(path) == Profiles("", {"dev": mine})


def test_the_profile_of_a_cluster_that_does_not_run_says_how_to_start_one(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    save_profile(Profile("dev-5", "x:1", "http://x:2"), path=path)
    with pytest.raises(ConfigError) as caught:
        read_profiles(path).get("dev")
    assert caught.value.hint == "it exists while its cluster runs, start one:  pytubemq dev; profiles: dev-5"


def test_a_profile_is_removed_and_then_none_is_current(tmp_path: Path) -> None:
    path = tmp_path / "profiles.toml"
    save_profile(DEV, path=path)
    save_profile(Profile("b", "x:1", "http://x:2"), path=path)
    assert remove_profile("b", path=path) == read_profiles(path)
    assert (read_profiles(path).current, list(read_profiles(path).by_name)) == ("", ["dev"])
    with pytest.raises(ConfigError, match="no profile is named 'b'"):
        remove_profile("b", path=path)
