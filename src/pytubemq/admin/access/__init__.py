"""The permission that each call over HTTP needs, in one table, and the check before each call."""
