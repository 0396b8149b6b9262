"""The JSON API over HTTP: what the command line and other programs administer a cluster by."""
