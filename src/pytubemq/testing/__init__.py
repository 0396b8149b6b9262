"""What users of pytubemq test their own code with; nothing else in the package imports it."""
