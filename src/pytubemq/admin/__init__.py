"""The JSON API over HTTP, with which the command line and other programs administer a cluster."""
