"""Rules on the sinks, and on the dead letters where they are a sink like another."""
