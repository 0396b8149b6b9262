"""Consumers of a group: partition consumers, confirms and the loops around them."""
