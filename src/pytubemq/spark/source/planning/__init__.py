"""Planning on the driver: from positions and limits to tasks."""
