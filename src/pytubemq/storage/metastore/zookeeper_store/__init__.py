"""Metadata in ZooKeeper: the store of the records, and the lease of their Master beside them."""
