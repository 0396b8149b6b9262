"""The data on disk: a journal per Broker, a log and an index per partition; blocking code without an event loop."""
