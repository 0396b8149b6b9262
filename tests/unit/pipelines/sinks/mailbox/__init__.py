"""A kind of sink that the package does not have: what somebody writes who adds one."""
