"""TLS: the contexts of servers and clients, their reload, and the words for what went wrong."""
