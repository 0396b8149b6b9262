"""The systems that ours is measured beside: fetched once, started as the measures need them."""
