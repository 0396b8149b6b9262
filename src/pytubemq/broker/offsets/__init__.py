"""Handlers of requests that change groups' offsets from outside the group."""
