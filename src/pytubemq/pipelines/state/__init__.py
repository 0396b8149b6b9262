"""The state directory of a pipeline: progress, ledger, and who owns it."""
