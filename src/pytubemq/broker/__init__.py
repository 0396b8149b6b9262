"""The Broker service: accepts messages, stores them, serves them to consumers."""
