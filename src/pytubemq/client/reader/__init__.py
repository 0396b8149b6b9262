"""Readers of ranges, without a group."""
