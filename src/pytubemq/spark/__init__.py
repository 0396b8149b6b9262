"""TubeMQ and Spark: topics as tables and streams, what is in their messages, and pipelines from topic to table.

`source` reads (`format("tubemq")`), `sink` writes, `decode` turns messages into typed columns, `pipeline` runs what a
pipeline file says. Importing this package loads none of them.
"""
