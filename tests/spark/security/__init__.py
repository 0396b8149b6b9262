"""Spark at a cluster that lets nobody in without permission."""
