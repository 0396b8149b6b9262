"""Hostile peers: a Master, a Broker and clients that say what no sound peer would.

Every bad value comes from a generator with a seed, made from the message classes themselves: a message or a field that
is added later is covered as well. `docs/design/boundaries.md` says what must hold beside them and how to run them.
"""
