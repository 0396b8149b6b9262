"""The clusters of a user by name, with the addresses of their Masters and HTTP APIs.

One TOML file of the user's (`$XDG_CONFIG_HOME/pytubemq/profiles.toml`). The invariant: it is replaced as a whole, so a
reader never sees half of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytubemq.errors import ConfigError
from pytubemq.model.suggest import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping

_OF_DEV: Final = re.compile(r"dev(-[0-9]+)?")
"""The names of profiles that `pytubemq dev` writes."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One cluster."""

    name: str
    master: str
    """The address of the cluster, as `connect` takes it: a user is in it by name and by the path of a file."""
    http: str
    """URL of the JSON API."""
    data: str = ""
    """The data directory of `pytubemq dev`; empty for clusters that run elsewhere."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles, and the name of the current one."""

    current: str = ""
    by_name: Mapping[str, Profile] = field(default_factory=dict)

    def get(self, name: str) -> Profile:
        """Return the profile of that name.

        Raises:
            ConfigError: there is none.
        """
        if name in self.by_name:
            return self.by_name[name]
        known = ", ".join(sorted(self.by_name)) or "none yet; `pytubemq dev` writes one"
        near = suggest(name, self.by_name)
        hint = f"did you mean {near!r}?" if near else f"profiles: {known}"
        if _OF_DEV.fullmatch(name):
            there = f"; profiles: {known}" if self.by_name else ""
            hint = f"it exists while its cluster runs, start one:  pytubemq dev{there}"
        raise ConfigError(f"no profile is named {name!r}", hint=hint)


def profiles_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return the path of the file, by the XDG rules."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or "~").expanduser() / ".config")
    return Path(base) / "pytubemq" / "profiles.toml"


def read_profiles(path: Path | None = None) -> Profiles:
    """Return the profiles in the file; empty if there is none.

    Raises:
        ConfigError: it cannot be read, or is not in the form that this program writes.
    """
    path = path or profiles_path()
    try:
        table = tomllib.loads(path.read_text("utf-8"))
        found = {
            name: Profile(name, str(entry["master"]), str(entry["http"]), str(entry.get("data", "")))
            for name, entry in table.get("profiles", {}).items()
        }
    except FileNotFoundError:
        return Profiles()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"cannot use the profiles in {path}: {error}", hint="correct the file or remove it"
        ) from error
    return Profiles(str(table.get("current", "")), found)


def save_profile(profile: Profile, *, path: Path | None = None, make_current: bool = True) -> Path:
    """Add or replace one profile; return the file's path.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    path = path or profiles_path()
    profiles = read_profiles(path)
    by_name = {**profiles.by_name, profile.name: profile}
    _write(path, Profiles(profile.name if make_current else profiles.current, by_name))
    return path


def restore_profiles(written: Profile, before: Profiles, *, path: Path | None = None) -> None:
    """Undo `save_profile` for a profile, unless somebody has changed it since.

    The profile of this name in `before` is restored if a person wrote it; so is the current one.
    """
    path = path or profiles_path()
    now = read_profiles(path)
    if now.by_name.get(written.name) != written:
        return
    by_name = {name: profile for name, profile in now.by_name.items() if name != written.name}
    earlier = before.by_name.get(written.name)
    if earlier is not None and not earlier.data:
        by_name[written.name] = earlier
    current = before.current if now.current == written.name else now.current
    _write(path, Profiles(current if current in by_name else "", by_name))


def use_profile(name: str, *, path: Path | None = None) -> Profile:
    """Make a profile the current one."""
    path = path or profiles_path()
    profiles = read_profiles(path)
    chosen = profiles.get(name)
    _write(path, replace(profiles, current=name))
    return chosen


def remove_profile(name: str, *, path: Path | None = None) -> Profiles:
    """Remove one profile; return the others. If it was the current one, none is.

    Raises:
        ConfigError: there is none of that name, or the file cannot be read or written.
    """
    path = path or profiles_path()
    profiles = read_profiles(path)
    profiles.get(name)
    by_name = {other: profile for other, profile in profiles.by_name.items() if other != name}
    left = Profiles("" if profiles.current == name else profiles.current, by_name)
    _write(path, left)
    return left


def _write(path: Path, profiles: Profiles) -> None:
    lines = [f"current = {_quote(profiles.current)}"]
    for name, profile in profiles.by_name.items():
        lines += ["", f"[profiles.{_quote(name)}]"]
        lines += [f"{key} = {_quote(getattr(profile, key))}" for key in ("master", "http", "data")]
    scratch = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
            scratch = file.name
            file.write("\n".join(lines) + "\n")
        os.replace(scratch, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise ConfigError(f"cannot write {path}: {error.strerror or error}", hint="check its permissions") from error


def _quote(text: str) -> str:
    """Return a TOML basic string, which is the same as in JSON."""
    return json.dumps(text, ensure_ascii=False)
