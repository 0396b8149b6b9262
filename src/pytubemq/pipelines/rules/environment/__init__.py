"""Rules on what surrounds a pipeline: state, secrets, references, settings of Spark."""
