"""InLongMsg: what InLong's DataProxy writes into messages. Versions 0 to 4, and the protobuf form.

Each message holds groups of records; the records of a group share attributes. The invariant: a message is taken apart
whole or is rejected whole, and nothing in it is believed before it is checked against what is there.
"""
