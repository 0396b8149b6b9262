"""Connections and servers around `wire`; the only room that opens sockets."""
