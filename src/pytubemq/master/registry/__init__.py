"""What an administrator may change, as plain functions with their rules; no HTTP in here."""
