"""Changes that an administrator may make, as plain functions with their rules; no HTTP in here."""
