"""What a pipeline will do, said before it does it: parts, ranges, and each sink's promise with its reason."""
