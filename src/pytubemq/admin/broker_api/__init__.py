"""The original's administration of one Broker over HTTP: `/broker.htm?method=...`, so that its tools work here."""
