"""Repairs of a store's files."""
