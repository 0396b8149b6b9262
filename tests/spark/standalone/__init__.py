"""A real Spark cluster on loopback: one master and two workers from the pyspark wheel."""
