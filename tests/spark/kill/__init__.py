"""Pipelines in processes of their own, killed in the middle, each test ending in a count against the source."""
