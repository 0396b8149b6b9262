"""Work beside requests: the session with the Master, topics, removal, retention, health."""
