"""The Master's records in memory, written through to the store."""
