"""Creates or deletes topics at a Kafka Broker, and waits until all their partitions have a leader."""

import time

from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from bench.clients.window import Result, Spec, report, spec

AT_A_TIME = 100
"""Topics in one request; a Broker refuses requests that change too much."""


def main(given: Spec) -> Result:
    """`create` or `delete`."""
    admin = AdminClient({"bootstrap.servers": given["server"]})
    deadline_s = time.monotonic() + given["timeout_s"]
    if given["do"] == "delete":
        for answer in admin.delete_topics(given["topics"], operation_timeout=60).values():
            answer.result()
        return {"done": True}
    new = [NewTopic(name, num_partitions=given["partitions"], replication_factor=1) for name in given["topics"]]
    for first in range(0, len(new), AT_A_TIME):
        some = new[first : first + AT_A_TIME]
        for answer in admin.create_topics(some, operation_timeout=60, request_timeout=120).values():
            answer.result()
    wanted = set(given["topics"])
    while time.monotonic() < deadline_s:
        there = admin.list_topics(timeout=30).topics
        if all(name in there and _serves(there[name], given["partitions"]) for name in wanted):
            return {"done": True}
        time.sleep(0.2)
    raise SystemExit("the topics did not come up")


def _serves(topic: TopicMetadata, partitions: int) -> bool:
    found = topic.partitions.values()
    return len(found) == partitions and all(one.leader >= 0 for one in found)


if __name__ == "__main__":
    report(main(spec()))
