"""Consumer groups: members, assignment, flow control, and the requests of consumers."""
