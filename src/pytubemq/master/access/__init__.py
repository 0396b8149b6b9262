"""Who calls the Master and what it may do: accounts, signatures, tokens, and a guard before each method."""
