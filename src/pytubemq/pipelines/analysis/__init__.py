"""Analysis of a pipeline from its file alone: guarantees, targets, loops, names."""
