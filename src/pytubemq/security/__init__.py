"""Identity, tokens and permissions: decisions and formats, no I/O; the time and random bytes come in as arguments."""
