"""Puts InLongMsg messages into a topic, as a DataProxy does: version 1, Snappy, csv of 10 fields inside."""

import random

import pytubemq
from bench.clients.window import Result, Spec, report, spec
from pytubemq.decode.inlong.encode import encode_inlong
from pytubemq.server.run import run_loop

AT_ONCE = 32
MADE = 200
"""Different messages; the topic has them again and again."""
CREATED_MS = 1_700_000_000_000
ATTRIBUTES = {"groupId": "bench", "streamId": "flights", "dt": str(CREATED_MS)}
WORDS = ("on time", "delayed", "boarding", "landed", "diverted", "cancelled")


def record(dice: random.Random) -> bytes:
    """Ten fields: numbers, words and times as a log line has them."""
    return (
        f"{dice.randrange(1 << 40)},{dice.randrange(1 << 30)},XY{dice.randrange(9999)},{dice.choice(WORDS)},"
        f"{dice.random() * 180 - 90:.6f},{dice.random() * 360 - 180:.6f},{dice.randrange(40_000)},"
        f"{'true' if dice.random() < 0.5 else 'false'},2026-11-{dice.randint(1, 27):02d} 12:00:{dice.randint(10, 59)},"
        f"{dice.getrandbits(64):016x}"
    ).encode()


async def main(given: Spec) -> Result:
    """Every receipt is looked at."""
    dice, each = random.Random(7), given["records_per_message"]
    made = [
        encode_inlong([(ATTRIBUTES, [record(dice) for _ in range(each)])], version=1, created_ms=CREATED_MS)
        for _ in range(MADE)
    ]
    left, size = given["records"] // each, 0
    async with pytubemq.connect(given["master"]) as tube, tube.producer(given["topic"]) as producer:
        at = 0
        while left:
            bodies = [made[(at + number) % MADE] for number in range(min(AT_ONCE, left))]
            at, left = at + len(bodies), left - len(bodies)
            size += sum(map(len, bodies))
            await producer.send_many(bodies, msg_type="flights", msg_time="202611011200")
    return {"messages": at, "records": at * each, "bytes": size}


if __name__ == "__main__":
    report(run_loop(main(spec())))
