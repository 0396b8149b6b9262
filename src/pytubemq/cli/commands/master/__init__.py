"""`pytubemq master`."""
