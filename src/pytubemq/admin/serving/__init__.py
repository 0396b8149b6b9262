"""The HTTP server inside the event loop, and its connections."""
