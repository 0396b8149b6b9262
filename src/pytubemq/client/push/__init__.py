"""A consumer that calls a handler with what comes."""
