"""What a pipeline file says: read, checked, and made into frozen values. Needs neither Spark nor a cluster."""
