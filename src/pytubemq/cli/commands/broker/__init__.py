"""Commands on Brokers, and the stories of Brokers and groups."""
