"""Parts that all clients of one `Tube` share: connections, the Master, routes, requests and events."""
