"""TubeMQ and Spark: topics as tables and streams, and what is in their messages as typed columns.

`source` reads (`format("tubemq")`), `sink` writes, `functions` decode in DataFrames and in SQL. Importing this package
loads none of them.
"""
