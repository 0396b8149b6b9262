"""The table of commands, each loaded when it is called."""

from __future__ import annotations

from pytubemq.cli.lazy import Lazy

COMMANDS = {
    "dev": Lazy("pytubemq.cli.commands.dev:dev", "Run Master, Broker and HTTP in one process on this machine."),
    "demo": Lazy("pytubemq.demo.command:demo", "Real flights through a cluster into Spark and Parquet, with proof."),
    "produce": Lazy("pytubemq.cli.commands.produce.produce:produce", "Send lines, files or JSON to a topic."),
    "consume": Lazy(
        "pytubemq.cli.commands.consume.consume:consume", "Print a topic's messages, with or without a group."
    ),
    "topic": Lazy("pytubemq.cli.commands.topic:topic", "Create, list, show, alter and delete topics."),
    "group": Lazy("pytubemq.cli.commands.group:group", "List, show and reset consumer groups, and show their past."),
    "broker": Lazy("pytubemq.cli.commands.broker.broker:broker", "Show what happened to a Broker, and why."),
    "cluster": Lazy(
        "pytubemq.cli.commands.cluster:cluster",
        "Show the cluster's health, its members and the defaults for topics; keep its metadata in a file.",
    ),
    "user": Lazy(
        "pytubemq.cli.commands.user:user", "Create, list, rotate, disable and remove users, with passwords and tokens."
    ),
    "permission": Lazy(
        "pytubemq.cli.commands.permission:permission", "Grant, revoke, list and test what users may do."
    ),
    "audit": Lazy("pytubemq.cli.commands.audit:audit", "Show who changed what, from where, and when."),
    "pipeline": Lazy("pytubemq.cli.pipeline:pipeline", "Write, check and run pipeline files, from a topic to a table."),
    "server": Lazy("pytubemq.cli.commands.server:server", "Run a Master, a Broker or both from a settings file."),
    "store": Lazy(
        "pytubemq.cli.commands.store.store:store", "Inspect, verify, repair, export and import a stopped server's data."
    ),
    "master": Lazy(
        "pytubemq.cli.commands.master.master:master",
        "Move a stopped Master's records between its directory and a database.",
    ),
    "bench": Lazy("pytubemq.cli.commands.bench:bench", "Measure producing, consuming and end-to-end latency."),
    "cert": Lazy("pytubemq.cli.commands.cert:cert", "Make a CA and certificates for TLS in a trial cluster."),
    "profile": Lazy("pytubemq.cli.commands.profile:profile", "Name clusters and choose the current one."),
    "errors": Lazy("pytubemq.cli.commands.errors:errors", "Explain error codes: meaning, cause and remedy."),
}
