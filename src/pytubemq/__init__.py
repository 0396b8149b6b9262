"""TubeMQ in Python."""
