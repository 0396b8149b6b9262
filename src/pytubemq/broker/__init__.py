"""The Broker service: accepts messages, keeps them, hands them to consumers."""
