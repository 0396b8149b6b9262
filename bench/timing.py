"""Whether the time of a refusal tells how much of a secret text was right.

    python -m bench.timing [--pairs 100000] [--seed N]

Prints one JSON object. Each row compares two wrong texts, one right up to its last character and one wrong from the
first on, in pairs of random order: `t` is Welch's, `bound` what it must stay below. The row `control` compares them
character by character, as no server should; it must be beyond the bound, or the machine is too noisy to say anything.
The exit code is 0 if every row is as it must be, else 1.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from typing import TYPE_CHECKING, Final

from bench.harness.welch import BOUND, uninterrupted, welch_t
from pytubemq.security.client_token import ClientIdentity, issue_token, read_token
from pytubemq.security.secret import Secret
from pytubemq.security.signature import is_signature, sign
from pytubemq.security.token_keys import accepted_keys, client_key

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS: Final = 100_000
WARM_UP: Final = 2_000
NOW_S: Final = 1_700_000_000.0
USER, SECRET, NONCE, CLIENT_ID = "ann", Secret("s" * 43), 12_345, "c1"
ROOT: Final = bytes(range(32))


def wrong_texts(right: str, begin: int) -> tuple[str, str]:
    """Return two wrong texts of the same length: right but for the last character, and wrong from `begin` on."""
    return right[:-1] + _other(right[-1]), right[:begin] + "".join(map(_other, right[begin:]))


def _other(char: str) -> str:
    return "A" if char != "A" else "B"


def compare(check: Callable[[str], object], texts: tuple[str, str], *, pairs: int, rng: random.Random) -> float:
    """Return Welch's t of the times that a check takes for two texts."""
    times: tuple[list[int], list[int]] = ([], [])
    clock = time.perf_counter_ns
    for number in range(WARM_UP + pairs):
        first = rng.getrandbits(1)
        for which in (first, 1 - first):
            text = texts[which]
            begun = clock()
            check(text)
            spent = clock() - begun
            if number >= WARM_UP:
                times[which].append(spent)
    return welch_t(*uninterrupted(*times))


def checks() -> dict[str, tuple[Callable[[str], object], tuple[str, str]]]:
    """Return the checks to measure, each with its two wrong texts."""
    signature = sign(USER, SECRET, timestamp_ms=int(NOW_S * 1000), nonce=NONCE)
    token = issue_token(client_key(ROOT, now_s=NOW_S), ClientIdentity(USER, 1), CLIENT_ID, now_s=NOW_S)
    keys = accepted_keys(ROOT, now_s=NOW_S)

    def check_signature(text: str) -> bool:
        return is_signature(text, USER, SECRET, timestamp_ms=int(NOW_S * 1000), nonce=NONCE)

    def check_token(text: str) -> object:
        return read_token(keys, text, CLIENT_ID, now_s=NOW_S)

    def check_by_character(text: str) -> bool:
        return all(one == other for one, other in zip(text, signature, strict=True))

    return {
        "signature": (check_signature, wrong_texts(signature, 0)),
        "token": (check_token, wrong_texts(token, token.rindex(".") + 1)),
        "control": (check_by_character, wrong_texts(signature, 0)),
    }


def measure(*, pairs: int, seed: int) -> dict[str, object]:
    """Return all rows, and whether each is as it must be."""
    rng = random.Random(seed)
    rows = []
    gc.disable()  # a collection would come at the same place of each round
    try:
        for name, (check, texts) in checks().items():
            t = compare(check, texts, pairs=pairs, rng=rng)
            tells = abs(t) >= BOUND
            rows.append({"what": name, "t": round(t, 2), "bound": BOUND, "met": tells == (name == "control")})
    finally:
        gc.enable()
    return {"pairs": pairs, "seed": seed, "rows": rows, "met": all(row["met"] for row in rows)}


def main() -> int:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    given = parser.parse_args()
    if given.pairs < 100:
        parser.error(f"--pairs {given.pairs} is too few: give 100 or more")
    result = measure(pairs=given.pairs, seed=given.seed)
    print(json.dumps(result, indent=2))
    return 0 if result["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
