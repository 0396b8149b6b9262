"""The client: producer, consumer and reader on asyncio, and the facade for callers without a loop."""
