"""The Master: which Brokers, topics and clients there are, and who consumes what."""
