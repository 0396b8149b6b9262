"""pytubemq beside the published Java system: every client on every pair of Master and Broker."""
