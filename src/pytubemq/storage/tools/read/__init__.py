"""Reading a store that may be damaged, without changing it."""
