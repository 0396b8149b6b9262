"""Tools to inspect, verify, repair, export from and import into a stopped Broker's directory; nothing here prints."""
