"""Protobuf's building blocks: variable-length numbers, fields, and how messages are declared."""
