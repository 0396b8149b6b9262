"""`pytubemq store`."""
