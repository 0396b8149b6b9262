"""The append path: from submissions to durable blocks of the journal, and on to the logs."""
