"""The producer: from a message that is accepted to its receipt."""
