"""The version, in one place: read by the build, the command line and the client id."""

__version__ = "0.1.0.dev0"
