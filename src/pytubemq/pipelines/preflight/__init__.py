"""What is looked at before a run's first batch: each file refuses one thing that cannot be, with the remedy.

The invariant: nothing here writes outside of the state directory, and nothing here is asked again once batches run,
but for whose Spark's file log is.
"""
