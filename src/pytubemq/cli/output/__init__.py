"""Output of commands: tables, JSON, lines and records."""
