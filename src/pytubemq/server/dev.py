"""A cluster for one person on one machine: `pytubemq dev`.

The invariants: default ports that are taken are named and skipped, one that was given is an error; what was found is
written into the profile `dev` before anyone is told that it is ready, and taken back at the end; the profile of another
one that runs is left alone; two on one directory are refused before anything is started. A cluster that cannot get its
demo topic stays up all the same, because the commands that help need a Master that runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pytubemq.errors import ConfigError, DirectoryLockedError, NotFoundError, TubeError
from pytubemq.model.ids import Address
from pytubemq.net.ports import is_free, next_free
from pytubemq.observe.story import configure_stories
from pytubemq.server.compose import ROLES, Endpoints, Node, make_directory
from pytubemq.server.port_owner import port_owner
from pytubemq.server.profiles import Profile, Profiles, read_profiles, restore_profiles, save_profile
from pytubemq.server.run import run_node
from pytubemq.server.settings import Settings, parse_address
from pytubemq.server.sources import load_settings
from pytubemq.storage.disk.disk import OsDisk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DEMO_TOPIC = "demo"
DEMO_PARTITIONS = 4
LOCK_FILE = "dev.lock"
_PORTS = (
    ("master", "listen", "master"),
    ("broker", "listen", "broker"),
    ("http", "listen", "http"),
    ("broker", "http_listen", "broker http"),
)
"""Section and key of each address, and what it is called."""


@dataclass(frozen=True, slots=True)
class DevReady:
    """What a person wants to know about the cluster that now runs."""

    endpoints: Endpoints
    data_dir: Path
    topic: str
    partitions: int
    """Of the demo topic; 0 if it does not exist, and `notes` then say why."""
    profile: str
    current: bool
    """Whether commands that name no cluster work with this one."""
    notes: tuple[str, ...] = field(default_factory=tuple)
    """Ports that were taken, and by whom; what is wrong with the cluster, and the remedy."""
    has_token: bool = False
    """True if a change over HTTP needs the token of `http.token`."""
    insecure: bool = False
    """True if `insecure` is set: whoever reaches the cluster may use it."""


def run_dev(
    *,
    data_dir: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    announce: Callable[[DevReady], None],
    until_ready: bool = False,
    profile: str = "dev",
) -> int:
    """Run it to the end; returns the exit code.

    Raises:
        DirectoryLockedError: another one uses the directory.
        ConfigError: a setting or the directory cannot be used.
    """
    origins: dict[str, str] = {}
    settings = load_settings(
        None, environ=environ, flags={"log.level": "warning", **flags, "data": str(data_dir)}, origins=origins
    )
    configure_stories(settings.log.story)
    lock = OsDisk().lock(make_directory(settings.data_dir) / LOCK_FILE)
    written: Profile | None = None
    before = Profiles()
    try:
        settings, notes = free_ports(settings, given=frozenset(origins))
        demo = _DemoTopic()
        node = Node(settings, ROLES["all"], before_open=demo.create)

        async def on_ready() -> None:
            nonlocal written, before
            endpoints = node.endpoints
            assert node.master is not None
            assert endpoints.master is not None
            assert endpoints.http is not None
            partitions = await demo.partitions(node)
            before = read_profiles()
            name = free_name(before, profile, settings.data_dir)
            written = Profile(name, endpoints.master, endpoints.http, str(settings.data_dir.absolute()))
            save_profile(written, make_current=name == profile)
            announce(
                DevReady(
                    endpoints,
                    settings.data_dir,
                    DEMO_TOPIC,
                    partitions,
                    name,
                    name == profile,
                    (*notes, *await demo.notes(node)),
                    has_token=bool(settings.http.token.strip()),
                    insecure=settings.insecure,
                )
            )

        return run_node(node, on_ready=on_ready, until_ready=until_ready)
    finally:
        lock.release()
        if written is not None:
            restore_profiles(written, before)


class _DemoTopic:
    """The topic that `dev` promises, and the error where it cannot be created."""

    def __init__(self) -> None:
        self._error: TubeError | None = None

    async def create(self, node: Node) -> None:
        """Create the topic, unless it exists from an earlier run; keep an error for `notes`."""
        assert node.master is not None
        if DEMO_TOPIC in {topic.name for topic in await node.master.topics()}:
            return
        try:
            await node.master.create_topic(DEMO_TOPIC, DEMO_PARTITIONS)
        except TubeError as error:
            self._error = error

    async def partitions(self, node: Node) -> int:
        """Return how many partitions the topic has; 0 if it does not exist."""
        assert node.master is not None
        try:
            return (await node.master.topic(DEMO_TOPIC)).partitions
        except NotFoundError:
            return 0

    async def notes(self, node: Node) -> list[str]:
        """Return a line for each reason why the cluster is degraded, else one for the error of the creation."""
        assert node.master is not None
        lines = [f"{reason.thing}: {reason.why}; {reason.hint}" for reason in (await node.master.health()).reasons]
        if not lines and self._error is not None:
            lines = [f"{self._error.message}; {self._error.hint}" if self._error.hint else self._error.message]
        return lines


def free_name(profiles: Profiles, wanted: str, data_dir: Path) -> str:
    """The name wanted, or with a number behind it where another cluster like this one runs under it."""
    name, number = wanted, 1
    while name in profiles.by_name and _runs_elsewhere(profiles.by_name[name], data_dir):
        number += 1
        name = f"{wanted}-{number}"
    return name


def _runs_elsewhere(profile: Profile, data_dir: Path) -> bool:
    lock_file = Path(profile.data) / LOCK_FILE
    if not profile.data or not lock_file.is_file() or lock_file.parent.resolve() == data_dir.resolve():
        return False
    try:
        OsDisk().lock(lock_file).release()
    except DirectoryLockedError:
        return True
    except OSError:
        return False  # not ours to look at, so not one that this user has started
    return False


def free_ports(settings: Settings, *, given: frozenset[str] = frozenset()) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings with each taken default port replaced by the next free one, and a line about each.

    Ports that were given are reserved first, so that no default takes one of them.

    Raises:
        ConfigError: a port that was given (its setting is one of `given`) is taken.
    """
    notes: list[str] = []
    chosen: set[Address] = set()
    for section, key, name in sorted(_PORTS, key=lambda port: f"{port[0]}.{port[1]}" not in given):
        part = getattr(settings, section)
        text = getattr(part, key)
        if not text:
            continue
        wanted = parse_address(f"{section}.{key}", text, default_port=0)
        if f"{section}.{key}" in given and wanted.port and (wanted in chosen or not is_free(wanted)):
            owner = "another address of this cluster" if wanted in chosen else port_owner(wanted.port)
            raise ConfigError(
                f"{section}.{key}: port {wanted.port} of {text} is taken{f' by {owner}' if owner else ''}",
                hint=f"stop what listens there, or give another port; without {section}.{key} a free one is chosen",
            )
        address = wanted
        while address.port and (address in chosen or not is_free(address)):
            address = next_free(Address(address.host, address.port + 1))
        if address != wanted:
            owner = port_owner(wanted.port)
            by = f" by {owner}" if owner else ""
            notes.append(f"port {wanted.port} ({name}) is taken{by}, using {address.port}")
            part = msgspec.structs.replace(part, **{key: str(address)})
            settings = msgspec.structs.replace(settings, **{section: part})
        chosen.add(address)
    return settings, tuple(notes)
