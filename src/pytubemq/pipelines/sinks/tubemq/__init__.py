"""The TubeMQ sink."""
