"""Trying a pipeline without running it: its own tests, and a dry run on a few real messages. Writes nothing."""
