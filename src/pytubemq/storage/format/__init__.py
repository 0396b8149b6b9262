"""Formats of what is stored: headers, records, indexes, blocks, the checkpoint."""
