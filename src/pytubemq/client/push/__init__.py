"""Consumers that call a handler with each batch or message."""
