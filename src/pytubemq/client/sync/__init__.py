"""The facade for callers without an event loop: it carries calls over to the loop's thread and results back.

The invariant: nothing here decides anything. Heartbeats go on however long the caller takes for a batch, and every wait
can be interrupted by Ctrl-C.
"""
