"""What a pipeline file says: read, and made into frozen values. Needs neither Spark nor a cluster."""
