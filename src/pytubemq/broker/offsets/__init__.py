"""Handlers of changes to groups' offsets by somebody who is not their consumer."""
