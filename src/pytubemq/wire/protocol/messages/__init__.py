"""The protocol's messages as typed Python classes."""
