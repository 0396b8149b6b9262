"""TubeMQ's messages on the wire, and our extensions."""
