"""Pipelines: source, decode, steps, sinks, as one file says it.

`spec` reads and checks the file, `run` carries it out, `watch` tells how it goes. Importing this package loads none of
them.
"""
