"""Record batches: many messages of one partition, built once and carried as they are."""
