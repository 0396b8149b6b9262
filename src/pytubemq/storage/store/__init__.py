"""One Broker's store, put together from journal and logs."""
