"""Pipeline files, read and made into frozen values. Needs neither Spark nor a cluster."""
