"""Checks of a store's files: what is wrong, where, and what it means."""
