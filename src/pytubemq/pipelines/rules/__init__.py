"""The rules of `lint`, each a function of a pipeline and its places to faults."""
