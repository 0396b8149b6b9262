"""Looks into, checks, mends, exports and fills the directory of a Broker that does not run; nothing here prints."""
