"""The plan of a pipeline before it runs: parts, ranges, and each sink's promise with its reason."""
