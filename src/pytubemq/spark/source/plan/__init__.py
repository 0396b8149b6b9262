"""Values of a batch's plan: ranges of partitions, and how rows are shared among them."""
