"""Watching and operating pipelines: their status, their report, and what an operator does to them.

What reads a state directory loads no Spark; what reads messages again (`tap`, `backfill`, `redrive`) does.
"""
