"""What a Java Broker leaves on disk, read and never changed."""
