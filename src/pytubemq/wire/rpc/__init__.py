"""RPC: the envelope, the table of methods, and streams of requests and responses."""
