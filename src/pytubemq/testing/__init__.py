"""Tools for users of pytubemq to test their own code; nothing else in the package imports it."""
