"""The partitions that a group may have now, and the groups that a change of topics affects."""
