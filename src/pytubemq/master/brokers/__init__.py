"""The Brokers of the cluster: registration, configuration, and who is online with which topics."""
