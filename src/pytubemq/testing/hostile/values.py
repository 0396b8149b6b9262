"""Values that no correct peer sends: numbers at their bounds, names that break something, texts that are nearly right.

The invariants: the same `random.Random` gives the same values; no host among them can be reached, except this machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pytubemq.wire.text.configuration import BrokerDefaultConf, BrokerTopicConf
from pytubemq.wire.text.configuration import format_broker_default_conf as default_conf
from pytubemq.wire.text.configuration import format_broker_topic_conf as topic_conf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

I32_MAX: Final = 2**31 - 1
I64_MAX: Final = 2**63 - 1
NUMBERS: Final = (
    0, 1, -1, 2, -2, 27, 28, 29, -28, 64, 127, 128, 255, 256, 1000, 9_999, 10_000, 10_001, 65_535, 65_536, 99_999,
    2**20, 2**24, 2**31 - 28, I32_MAX, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, I64_MAX - 27, I64_MAX, -(2**31), -(2**63),
)  # fmt: skip
"""Bounds of types, ids, ports and offsets (aligned and not), and the numbers next to them."""

NAMES: Final = (
    "", " ", "\t", ".", "..", "../..", "../../../../etc", "/", "/etc/passwd", "/tmp", "~", "-", "--help", "a/b",
    "a\\b", "a\0b", "\0", "\n", "demo\n2026-01-01T00:00:00.000Z ERROR   forged  line", "\x1b[2J\x1b[31mred", "\r\r",
    "\u202edemo", "DEMO", "demo ", " demo", "Demo", "demo.", "demo_other", "d\u00e9mo", "\u2028", "\U0001f600",
    "%s%n%d", "${jndi:x}", "{0}", "'; DROP TABLE topics; --", "<script>alert(1)</script>", "con", "nul", "null",
    "None", "true", "0", "-1", "1e9", "\u0664\u0662", "\u00b2", "a@b", "a#b", "a:b", "a,b", "a=b", "@", "#", ":", ",",
    "=", "a" * 64, "a" * 65, "a" * 1024, "a" * 1025, "java.lang.Runtime", "os.system", "pytubemq.errors.ConfigError",
    "__class__", "*", ".*", "(a+)+$", "[" * 50, "\ufffd", "\ud7ff",
)  # fmt: skip
"""Names that do not exist: paths, longest names, line ends, escapes, patterns, and separators of other texts."""

HOSTS: Final = (
    "127.0.0.1", "localhost", "127.0.0.9", "", " ", "127.0.0.1 ", "a..b", "-", ".", "a" * 64, "a" * 300,
    "127.0.0.1\n", "127.0.0.1\x1b[2J", "h#x", "h@x", "h,x", "[::1]", "::1", "[", "256.256.256.256", "0.0.0.0",
    "\u0661.0.0.1", "xn--", "h\0x", "no-such-host.invalid",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scene:
    """The topics, groups and Brokers that really exist, so that a value may be nearly right."""

    topic: str = "demo"
    partitions: int = 3
    group: str = "hostile"
    client_id: str = "hostile_127.0.0.1-1-1-1-Pull-1.0"
    broker_id: int = 1
    broker: str = "127.0.0.1:8123"
    more_topics: Sequence[str] = field(default=("other", "gone"))
    token: str = ""
    """The bearer token of who sends requests over HTTP; blank if it has none."""


class Values:
    """A generator of bad values, and of good ones where a bad one would end a request too early."""

    def __init__(self, random: Random, scene: Scene, *, most_bytes: int = 64 * 1024) -> None:
        self.random = random
        self.scene = scene
        self.most_bytes = most_bytes

    # --- bad ones -------------------------------------------------------------------------------------------

    def number(self) -> int:
        """Return a number at or near a bound, or any."""
        if self.random.random() < 0.8:
            return self.random.choice(NUMBERS)
        return self.random.randint(-(2**63), I64_MAX)

    def text(self, form: str | None = None) -> str:
        """Return a text: a bad name, a text of some form with one part bad, or a long one."""
        roll = self.random.random()
        if roll < 0.3:
            return self.random.choice(NAMES)
        if roll < 0.9:
            return self._spoilt(self.form(form if form in FORMS else self.random.choice(sorted(FORMS))))
        return self._long()

    def data(self) -> bytes:
        """Return random bytes, rarely many."""
        size = self.random.choice((0, 1, 3, 4, 5, 40, 1000, self.most_bytes if self.random.random() < 0.05 else 100))
        return self.random.randbytes(size)

    def count(self) -> int:
        """Return a number of repetitions, rarely a large one."""
        return self.random.choices((0, 1, 2, 3, 16, 500, 5_000), (10, 30, 25, 20, 10, 4, 1))[0]

    def _long(self) -> str:
        size = self.random.choice((65, 257, 1_025, 4_097, self.most_bytes // 2))
        return self.random.choice(("a", "1", ":", ",", "#", "1:", "a#1:1:1,", "\u00e9", "-", "[", '{"a":', " ")) * (
            size // 2
        )

    def _spoilt(self, text: str) -> str:
        """Return the text with one change: a part replaced, left out, doubled, cut or padded."""
        roll, random = self.random.random(), self.random
        at = random.randrange(len(text) + 1)
        if roll < 0.5:
            divided = [mark for mark in ":#@,=-" if mark in text]
            mark = random.choice(divided) if divided else ":"
            parts = text.split(mark)
            bad = str(self.number()) if random.random() < 0.6 else random.choice(NAMES)
            at = 0 if random.random() < 0.3 else random.randrange(len(parts))  # names stand in front
            parts[at] = bad
            return mark.join(parts)
        if roll < 0.6:
            return text[:at]
        if roll < 0.7:
            return (
                text[:at] + random.choice(("#", ":", "@", ",", "\n", "\0", " ", "\u00e9", "\x1b", "9" * 30)) + text[at:]
            )
        if roll < 0.8:
            return f"{text},{text}"
        if roll < 0.85:
            return ",".join([text] * random.choice((50, 500)))
        return text if roll < 0.95 else f" {text}\n"

    # --- good ones, by form ---------------------------------------------------------------------------------

    def form(self, name: str) -> str:
        """Return a correct text of a form, naming things that exist or might."""
        return FORMS[name](self)

    def topic(self) -> str:
        """Return the name of a topic, mostly of an existing one."""
        return self.random.choices((self.scene.topic, *self.scene.more_topics), (8, 1, 1))[0]

    def broker_id(self) -> int:
        """Return the id of a Broker, mostly of the existing one."""
        return self.scene.broker_id if self.random.random() < 0.8 else self.random.choice((2, 7, 1001, I32_MAX))

    def address(self) -> str:
        """Return `host:port`, mostly that of the existing Broker."""
        if self.random.random() < 0.8:
            return self.scene.broker
        return f"{self.random.choice(HOSTS)}:{self.random.choice((0, 1, 8123, 65_535, 65_536, -1))}"

    def partition_id(self) -> int:
        """Return the id of a partition, mostly of an existing one."""
        return (
            self.random.randrange(self.scene.partitions)
            if self.random.random() < 0.8
            else self.random.choice((9, 10_000))
        )

    def large_or_small(self) -> int:
        """Return a number of partitions or stores for a text to claim."""
        return self.random.choices((self.scene.partitions, 0, 100, 10_000, 1_000_000, I32_MAX), (12, 1, 1, 1, 1, 1))[0]


def _broker(values: Values) -> str:
    return f"{values.broker_id()}:{values.address()}"


def _partition(values: Values) -> str:
    return f"{_broker(values)}#{values.topic()}:{values.partition_id()}"


def _subscription(values: Values) -> str:
    return f"{values.scene.client_id}@{values.scene.group}#{_partition(values)}"


def _topic_info(values: Values) -> str:
    return (
        f"{values.topic()}#{values.broker_id()}:{values.large_or_small()}:{values.random.choice((1, 1, 1, 2, 10_000))}#"
    )


def _topic_meta(values: Values) -> str:
    return (
        f"{values.topic()}#{values.broker_id()}:{values.random.choice((1, 1, 2, 10_000))}:{values.large_or_small()}:1"
    )


def _topic_conf(values: Values) -> str:
    status = values.random.choices((0, 1, 2, 3), (6, 1, 1, 1))[0]
    return topic_conf(BrokerTopicConf(topic=values.topic(), partitions=values.large_or_small(), status=status))


def _flow_rules(values: Values) -> str:
    rules = (
        '[{"type":0,"rule":[{"start":"08:00","end":"17:30","dltInM":1024,"limitInM":20,"freqInMs":1000}]}]',
        '[{"type":3,"rule":[{"normFreqInMs":0,"filterFreqInMs":100,"minDataFilterFreqInMs":400}]}]',
        '[{"type":1,"rule":[{"zeroCnt":3,"freqInMs":300}]}]',
        "[" * 2_000,
        '{"a":' * 2_000,
        "[]",
    )
    return values.random.choice(rules)


FORMS: Final[dict[str, Callable[[Values], str]]] = {
    "topic": Values.topic,
    "group": lambda values: values.scene.group,
    "client": lambda values: values.scene.client_id,
    "host": lambda values: values.random.choice(HOSTS),
    "broker": _broker,
    "broker client": lambda values: f"{_broker(values)}:1.0",
    "broker id": lambda values: str(values.broker_id()),
    "topic layout": _topic_info,
    "topic meta": _topic_meta,
    "partition": _partition,
    "subscription": _subscription,
    "failure": lambda values: f"{values.random.choice((411, 412, 0, -1))}:{_partition(values)}",
    "condition": lambda values: f"{values.topic()}#a,b",
    "filter": lambda values: values.random.choice(("a", "b", "even")),
    "offsets": lambda values: (
        f"{values.broker_id()}:{values.topic()}:{values.partition_id()}={values.random.choice(NUMBERS)}"
    ),
    "part subscription": lambda values: f"{values.topic()}#{values.broker_id()}:{values.partition_id()}",
    "default conf": lambda values: default_conf(BrokerDefaultConf(partitions=values.random.choice((1, 3)))),
    "topic conf": _topic_conf,
    "topic value": lambda values: (
        f"{values.topic()}:{values.random.choice(('disk', 'process', 'delete,72h', 'keep', ''))}"
    ),
    "flow rules": _flow_rules,
    "message type": lambda values: values.random.choice(("a", "b")),
    "message time": lambda values: values.random.choice(("202601010000", "209912312359", "000000000000")),
    "code text": lambda values: values.random.choice(("OK!", "no", "an earlier batch of this producer was refused")),
    "token": lambda values: str(values.random.choice(NUMBERS)),
    "word": lambda values: values.random.choice(("earliest", "latest", "time", "disk", "process", "memory", "user")),
}
"""Forms of texts by name, each with a maker of correct ones; `forms` has the form of each field."""
