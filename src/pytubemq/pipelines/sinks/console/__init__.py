"""The console sink."""
