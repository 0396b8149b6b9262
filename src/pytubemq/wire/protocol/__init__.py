"""What TubeMQ says on the wire: its messages, and our extensions."""
