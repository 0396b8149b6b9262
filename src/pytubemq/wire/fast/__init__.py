"""Fast paths for what comes most often; each is held to the plain way by a test."""
