"""Rules on the source and on decoding."""
