"""The log of one partition: segments, reads, lookups, retention."""
