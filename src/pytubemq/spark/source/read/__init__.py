"""Reading on the executors: ranges to Arrow batches."""
