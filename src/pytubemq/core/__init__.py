"""Decisions without I/O: the time and the dice come in as arguments, what to do goes out as values."""
