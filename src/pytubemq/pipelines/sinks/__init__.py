"""The sinks of a pipeline, one module each: how rows get there, and how a batch that comes twice is known.

The invariant: a sink finds out from its own target alone whether a batch is in it, whole; where it cannot, its
guarantee is at least once.
"""
