"""The programs that put load on a server, each a process of its own as a user's would be.

Each takes one JSON object as its argument and prints one JSON object. Those of the Kafka clients run in another virtual
environment and import nothing of pytubemq.
"""
