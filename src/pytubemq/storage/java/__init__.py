"""A Java Broker's files, read and never changed."""
