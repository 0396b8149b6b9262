"""Hostile peers: a Master, a Broker and clients that send what no correct peer would.

Every bad value comes from a seeded generator that works on the message classes themselves, so a message or a field that
is added later is covered as well. `docs/design/boundaries.md` says what must hold among them and how to run them.
"""
