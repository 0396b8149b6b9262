"""The rows of a batch: source, decoding, steps and their audit."""
