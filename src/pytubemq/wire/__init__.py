"""Bytes to messages and back: no I/O, no clock, no threads. The only room that sees protobuf."""
