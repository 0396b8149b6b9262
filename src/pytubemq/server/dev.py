"""A cluster for one person on one machine: `pytubemq dev`.

The invariants: default ports in use are named and skipped, a given one in use is an error; the addresses are written
into the profile `dev` before the cluster is announced as ready, and removed at the end; the profile of another running
cluster is not changed; two on one directory are refused before anything is started. A cluster that cannot get its
demo topic stays up all the same, because the commands that help need a running Master.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pytubemq.errors import ConfigError, DirectoryLockedError, NotFoundError, TubeError, UnavailableError
from pytubemq.observe.trace_events import configure_tracing
from pytubemq.security.authentication_mode import AuthenticationMode
from pytubemq.server.compose import ROLES, Endpoints, Node
from pytubemq.server.dev_ports import free_ports
from pytubemq.server.files import make_directory
from pytubemq.server.keys.dev_access import ADMIN, ADMIN_PERMISSION, DevAccess, dev_access
from pytubemq.server.profiles import Profile, Profiles, read_profiles, restore_profiles, save_profile
from pytubemq.server.run import run_node
from pytubemq.server.sources import load_settings
from pytubemq.storage.disk.disk import OsDisk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pytubemq.master.views import TopicView
    from pytubemq.server.settings import Settings

DEMO_TOPIC = "demo"
DEMO_PARTITIONS = 4
LOCK_FILE = "dev.lock"
_HTTP_TOKEN = "http.token"


@dataclass(frozen=True, slots=True)
class DevReady:
    """The running cluster as its user needs to know it."""

    endpoints: Endpoints
    data_dir: Path
    topic: str
    partitions: int
    """The partitions of the demo topic; 0 if it does not exist, and `notes` then have the reason."""
    profile: str
    current: bool
    """True if commands that name no cluster work with this one."""
    notes: tuple[str, ...] = field(default_factory=tuple)
    """Ports in use and their owners; the cluster's problems, and the remedies."""
    has_token: bool = False
    """True if a change over HTTP needs the token of `http.token`."""
    broker_id: int = 1
    away: tuple[int, ...] = ()
    """The Brokers of the demo topic that are away."""
    is_served: bool = True
    """True if some Broker serves the demo topic."""
    insecure: bool = False
    """True if `insecure` is set, so that it may be open to other machines."""
    asks_who: bool = False
    """True if nobody is served without a login."""
    access: DevAccess | None = None
    """The files that clients need to connect; None without --secure."""


def run_dev(
    *,
    data_dir: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    announce: Callable[[DevReady], None],
    until_ready: bool = False,
    profile: str = "dev",
    secure: bool = False,
) -> int:
    """Run the cluster until it is stopped; return the exit code.

    With `secure` it has authentication and TLS, and no port without TLS.

    Raises:
        DirectoryLockedError: another one uses the directory.
        MissingExtraError: the extra [secure] is not installed, and `secure` needs it.
        ConfigError: a setting or the directory cannot be used.
    """
    origins: dict[str, str] = {}
    flags = {"log.level": "warning", **flags, "data": str(data_dir)}
    settings = load_settings(None, environ=environ, flags=flags, origins=origins)
    configure_tracing(settings.log.story)
    lock = OsDisk().lock(make_directory(settings.data_dir) / LOCK_FILE)
    written: Profile | None = None
    before = Profiles()
    try:
        access = dev_access(settings.data_dir) if secure else None
        if access is not None:
            settings = load_settings(None, environ=environ, flags=_secured(flags, access))
        settings, notes = free_ports(settings, given=frozenset(origins))
        demo = _DemoTopic()

        async def before_open(node: Node) -> None:
            if access is not None:
                await _enrol_admin(node, access)
            await demo.create(node)

        node = Node(settings, ROLES["all"], before_open=before_open)

        async def on_ready() -> None:
            nonlocal written, before
            endpoints = node.endpoints
            assert node.master is not None
            assert endpoints.http is not None
            view = await demo.view(node)
            away = tuple(place.broker for place in view.places if not place.ready) if view else ()
            others = [broker_id for broker_id in away if broker_id != settings.broker.id]
            foreign = [broker_id for broker_id in others if (settings.data_dir / f"broker-{broker_id}").is_dir()]
            before = read_profiles()
            name = free_name(before, profile, settings.data_dir)
            written = Profile(name, *_addresses(endpoints, access), str(settings.data_dir.absolute()))
            save_profile(written, make_current=name == profile)
            announce(
                DevReady(
                    endpoints,
                    settings.data_dir,
                    DEMO_TOPIC,
                    view.partitions if view else 0,
                    name,
                    name == profile,
                    (*notes, *map(partial(_made_with, settings), foreign), *await demo.notes(node, explained=foreign)),
                    broker_id=settings.broker.id,
                    away=away,
                    is_served=view is not None and len(away) < len(view.places),
                    has_token=bool(settings.http.token.strip()),
                    insecure=settings.insecure,
                    asks_who=settings.security.authentication is AuthenticationMode.ENFORCED,
                    access=access,
                )
            )

        return run_node(node, on_ready=on_ready, until_ready=until_ready)
    finally:
        lock.release()
        if written is not None:
            restore_profiles(written, before)


def _secured(flags: Mapping[str, object], access: DevAccess) -> dict[str, object]:
    """Return the flags with the settings of a secured cluster. Raises ConfigError if a flag sets one of these."""
    own = access.settings()
    if given := sorted(own.keys() & flags.keys() - {_HTTP_TOKEN}):
        raise ConfigError(
            f"--secure sets {', '.join(given)}",
            hint="leave out --set for it, or leave out --secure (docs/how-to/secure-a-cluster.md has each step)",
        )
    return {**own, **flags}


async def _enrol_admin(node: Node, access: DevAccess) -> None:
    """Create the user of `access`, unless there is one of this name from an earlier start, and grant its permission."""
    assert node.master is not None
    users, by = node.master.registry.users, node.master.change_by("dev")
    if ADMIN not in {user.name for user in users.all()}:
        await users.create(ADMIN, by=by, secret=access.secret)
    await users.grant(ADMIN, *ADMIN_PERMISSION, by=by)
    with contextlib.suppress(UnavailableError):  # the cluster's health names the Broker, and its notes the health
        await node.master.registry.waits.until_access_known()


def _addresses(endpoints: Endpoints, access: DevAccess | None) -> tuple[str, str]:
    """Return the addresses of the Master and of the JSON API, as a profile has them."""
    assert endpoints.http is not None
    if access is None:
        assert endpoints.master is not None
        return endpoints.master, endpoints.http
    assert endpoints.master_tls is not None
    return access.master_address(endpoints.master_tls), access.http_address(endpoints.http)


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

    async def view(self, node: Node) -> TopicView | None:
        """Return the topic; None if it does not exist."""
        assert node.master is not None
        try:
            return await node.master.topic(DEMO_TOPIC)
        except NotFoundError:
            return None

    async def notes(self, node: Node, *, explained: Collection[int]) -> list[str]:
        """Return a line for each reason why the cluster is degraded, else one for the error of the creation.

        The Brokers in `explained` have a better line already.
        """
        assert node.master is not None
        things = {f"broker {broker_id}" for broker_id in explained}
        reasons = [reason for reason in (await node.master.health()).reasons if reason.thing not in things]
        lines = [f"{reason.thing}: {reason.why}; {reason.hint}" for reason in reasons]
        if not lines and self._error is not None:
            lines = [f"{self._error.message}; {self._error.hint}" if self._error.hint else self._error.message]
        return lines


def _made_with(settings: Settings, broker_id: int) -> str:
    """Return the line about a Broker of the demo topic that is away and whose data is in this directory."""
    return (
        f"topic {DEMO_TOPIC} is on Broker {broker_id}, which is away: this directory was made with broker.id "
        f"{broker_id}, and this is Broker {settings.broker.id}; start again with  --set broker.id={broker_id}"
    )


def free_name(profiles: Profiles, wanted: str, data_dir: Path) -> str:
    """Return the wanted name, with a number after it if another cluster of `dev` runs under it."""
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
        return False  # not accessible, so this user has not started it
    return False
