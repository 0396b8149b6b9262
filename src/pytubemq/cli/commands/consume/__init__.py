"""`pytubemq consume`."""
