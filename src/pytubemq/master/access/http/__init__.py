"""People and programs over HTTP: passwords, sessions of browsers, and bearer tokens."""
