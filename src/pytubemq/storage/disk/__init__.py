"""The disk: the port, real files, paths and names."""
