"""Access tokens of an OIDC issuer, and the keys that they are verified with."""
