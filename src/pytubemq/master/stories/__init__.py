"""Stories of groups and Brokers: each decision about one of them, with its reason."""
