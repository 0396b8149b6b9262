"""Handlers of fetches, of range reads and of registrations."""
