"""`pytubemq produce`."""
