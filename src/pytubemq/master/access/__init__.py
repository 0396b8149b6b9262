"""Authentication and authorization of the Master's callers: accounts, signatures, tokens; a guard for each method."""
