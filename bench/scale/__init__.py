"""The balance of a large cluster: its decisions simulated, and real members on loopback."""
