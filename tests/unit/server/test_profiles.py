"""Profiles: written whole, read back, refused when they are not what we write."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytubemq.errors import ConfigError
from pytubemq.server.profiles import Profile, profiles_path, read_profiles, save_profile, use_profile

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
