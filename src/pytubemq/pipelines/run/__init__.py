"""A pipeline carried out: batches from the source through the steps into the sinks, and a ledger of what is done.

The invariant: what a batch holds and what is already done of it can be read from the state directory and the sinks
alone, so that a run killed anywhere goes on where it stopped.
"""
