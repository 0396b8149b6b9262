"""Keys, secrets and certificates in files of a server's own, which only its user may read."""
