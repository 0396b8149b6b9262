"""What a server lets people see of itself."""
