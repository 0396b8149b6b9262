"""The cluster as people and programs see it: topics, Brokers, groups, health."""
