"""The messages of fetch responses: batches, unpacking, and columns for readers without an object per message."""
