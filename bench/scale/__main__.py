"""The balance of a large cluster: the Master's own decisions, without sockets.

    python -m bench.scale                    100,000 consumers in 10,000 groups, 1,000 topics, 100 Brokers
    python -m bench.scale --part 10          the same cluster at a tenth of each but the Brokers of a topic

Each group consumes one topic. A topic lies on --spread of the Brokers (10), with 10 partitions on each. Members carry
out every event at once. Prints one JSON object a step: the calls of members (`calls`: how many, p50, p99 and the
longest in ms), turns of the loop for changes of the cluster (`turns`), partitions that members had to take (`moves`),
facts that were applied and groups that they touched. Times are processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import json

from bench.scale.cluster import Shape
from bench.scale.steps import run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=int, default=1, help="divide consumers, groups, topics and Brokers by this")
    parser.add_argument("--spread", type=int, default=10, help="Brokers of each topic")
    options = parser.parse_args()
    whole = Shape()
    shape = Shape(
        consumers=whole.consumers // options.part,
        groups=whole.groups // options.part,
        topics=whole.topics // options.part,
        brokers=max(whole.brokers // options.part, options.spread),
        spread=options.spread,
    )
    asyncio.run(run(shape, lambda row: print(json.dumps(row), flush=True)))


if __name__ == "__main__":
    main()
